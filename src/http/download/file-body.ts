// Writes the body of a file to disk while it arrives, and stops as soon as the file must be refused, such as after the
// first kilobytes of a video if only pictures are wanted. `downloadFile` creates one `FileBody` per file; the HTTP client
// calls its `headers` before each attempt, and `receive` with each response.
import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import path from 'node:path';
import type { JsonValue } from '../../model/json.ts';
import { mapStoreErrors } from '../../object-store/file-system.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { type BodySink, type StreamedAnswer, decompress } from '../body/read-body.ts';
import { encodingOf } from '../exchange.ts';
import { type DownloadRequest, type FileRefusal, findKindFault, findSizeFault } from './download-request.ts';
import { detectKind, detectTextType } from './file-kind.ts';

/** How many of the first bytes stay in memory: enough to detect the type of most files. */
export const HEAD_BYTES = 65_536;
/** Readable for this user only; the file store sets the final mode. */
const FILE_MODE = 0o600;

export type ReceivedBody =
  | { kind: 'whole'; sha256: string }
  | { kind: 'empty' }
  /** A part (206), although the whole file was requested. */
  | { kind: 'part' }
  /** `json` is the body if the service sent JSON instead of the file. */
  | { kind: 'refused'; refusal: FileRefusal; json?: JsonValue | undefined };

export class FileBody implements BodySink {
  readonly path: string;
  bytes = 0;
  /** The result of the last attempt; null if its response had no file. */
  received: ReceivedBody | null = null;
  /** The error of the local disk; null if there was none. */
  failure: unknown = null;
  readonly #request: DownloadRequest;
  #head: Buffer[] = [];

  constructor(request: DownloadRequest) {
    this.#request = request;
    this.path = path.join(request.spool, `${request.name}.part`);
  }

  get head(): Buffer {
    return Buffer.concat(this.#head);
  }

  /** Returns the headers of the next attempt, and forgets the result of the last one. */
  headers(): Readonly<Record<string, string>> {
    const { etag, lastModified } = this.#request;
    this.received = null;
    // The service must not compress the file, because it is stored as sent.
    const unencoded = { accept: '*/*', 'accept-encoding': 'identity' };
    if (etag !== null) return { ...unencoded, 'if-none-match': etag };
    return lastModified === null ? unencoded : { ...unencoded, 'if-modified-since': lastModified };
  }

  async receive(answer: StreamedAnswer): Promise<void> {
    const { status, body } = answer;
    // Destroying the body of a refused file causes an error, which is ignored.
    body.on('error', () => undefined);
    [this.bytes, this.#head] = [0, []];
    try {
      this.received = status === 206 ? { kind: 'part' } : await this.#receiveWhole(answer);
    } finally {
      if (!body.readableEnded) body.destroy();
    }
  }

  /** Removes the file. Never throws, because the store removes leftover files later. */
  async remove(): Promise<void> {
    await rm(this.path, { force: true }).catch(() => undefined);
  }

  async #receiveWhole(answer: StreamedAnswer): Promise<ReceivedBody> {
    const { 'content-length': length } = answer.headers;
    const isSized = encodingOf(answer.headers) === '' && typeof length === 'string' && /^\d{1,15}$/.test(length);
    const refusal = isSized ? findSizeFault(Number(length), this.#request) : null;
    if (refusal !== null) return { kind: 'refused', refusal };
    const handle = await this.#onDisk(() => createFile(this.path));
    try {
      return await this.#write(handle, answer);
    } finally {
      await this.#onDisk(() => handle.close());
    }
  }

  async #write(handle: FileHandle, { body, headers, count }: StreamedAnswer): Promise<ReceivedBody> {
    const { maxBytes } = this.#request;
    const hash = createHash('sha256');
    for await (const chunk of decompress(body, encodingOf(headers), count)) {
      const missingHeadBytes = HEAD_BYTES - this.bytes;
      this.bytes += chunk.length;
      const tooLarge = this.bytes > maxBytes ? findSizeFault(this.bytes, this.#request) : null;
      if (tooLarge !== null) return { kind: 'refused', refusal: tooLarge };
      await this.#onDisk(() => handle.writeFile(chunk));
      hash.update(chunk);
      if (missingHeadBytes <= 0) continue;
      // Copied, because the chunk may be a part of a larger buffer, or be reused.
      this.#head.push(Buffer.from(chunk.subarray(0, missingHeadBytes)));
      if (chunk.length < missingHeadBytes) continue;
      const refusal = findKindFault(await detectKind(this.head, null), this.#request);
      if (refusal !== null) return { kind: 'refused', refusal };
    }
    if (this.bytes === 0) return { kind: 'empty' };
    return this.#findMessage() ?? { kind: 'whole', sha256: hash.digest('hex') };
  }

  /** If no JSON file is wanted, returns a short JSON body as a message of the service, such as an error or a limit. */
  #findMessage(): ReceivedBody | null {
    const type = 'application/json';
    const refusal = findKindFault({ type, size: null, isDamaged: false }, this.#request);
    if (refusal === null || this.bytes > HEAD_BYTES || detectTextType(this.head) !== type) return null;
    try {
      return { kind: 'refused', refusal, json: parseJson(this.head.toString()) };
    } catch {
      return null;
    }
  }

  async #onDisk<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await mapStoreErrors(path.dirname(this.path), work);
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }
}

/** Creates the file and its folder, which the system may have removed with other temporary files. */
async function createFile(file: string): Promise<FileHandle> {
  await mkdir(path.dirname(file), { recursive: true });
  return open(file, 'w', FILE_MODE);
}
