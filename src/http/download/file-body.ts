import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { errors } from 'undici';
import type { JsonValue } from '../../model/json.ts';
import { told } from '../../object-store/file-system.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { type BodySink, type StreamedAnswer, decompress } from '../body/read-body.ts';
import { encodingOf } from '../exchange.ts';
import type { AnswerHeaders } from '../outcome/outcome-table.ts';
import { type DownloadRequest, kindFault, type Refusal, sizeFault, tooLarge } from './download-request.ts';
import { kindOf, textTypeOf } from './file-kind.ts';

/** The first bytes that are kept in memory of each file: enough to tell what most files are. */
export const HEAD_BYTES = 65_536;
/** Only for this user: the file store sets the final mode. */
const MODE = 0o600;

/** What became of a body. */
export type ReceivedBody =
  | { kind: 'whole' }
  | { kind: 'empty' }
  /** `json` is what the service said in place of the file. */
  | { kind: 'refused'; refusal: Refusal; json?: JsonValue | undefined }
  /** Another part than the requested one. */
  | { kind: 'wrong_part'; reason: string };

/**
 * Takes the bodies of one download into a file, hashed while it is written, and stops as soon as one must be refused.
 * After a body that was cut off the next request asks for the rest, if a strong ETag (RFC 9110, 8.8.3) proves that it
 * belongs to what is here.
 */
export class FileBody implements BodySink {
  readonly path: string;
  /** The strong ETag to request the rest with; null without one. */
  etag: string | null = null;
  /** Bytes that are here. */
  bytes = 0;
  /** True if it is made of the bodies of several answers. */
  isPieced = false;
  /** Of the last attempt; null if it brought no body of a file. */
  received: ReceivedBody | null = null;
  /** True if the last attempt was conditional on a changed file. */
  isConditional = false;
  /** What our own disk failed with. */
  failure: unknown = null;
  readonly #request: DownloadRequest;
  #handle: FileHandle | null = null;
  #hash = createHash('sha256');
  #head: Buffer[] = [];
  /** Bytes of the whole file; null if unknown. */
  #total: number | null = null;

  constructor(request: DownloadRequest) {
    this.#request = request;
    this.path = path.join(request.spool, `${request.name}.part`);
  }

  /** Its first bytes, up to `HEAD_BYTES`. */
  get head(): Buffer {
    return Buffer.concat(this.#head);
  }

  headers(): Readonly<Record<string, string>> {
    const { etag, lastModified } = this.#request;
    this.received = null;
    const isRest = this.bytes > 0 && this.etag !== null;
    this.isConditional = !isRest && (etag !== null || lastModified !== null);
    // The file in no other form than the one in which it is kept.
    const asItIs = { accept: '*/*', 'accept-encoding': 'identity' };
    if (isRest) return { ...asItIs, range: `bytes=${this.bytes}-`, 'if-range': this.etag ?? '' };
    if (etag !== null) return { ...asItIs, 'if-none-match': etag };
    return lastModified === null ? asItIs : { ...asItIs, 'if-modified-since': lastModified };
  }

  async receive(answer: StreamedAnswer): Promise<void> {
    const { body } = answer;
    // Destroying the rest of a refused body is no error.
    body.on('error', () => undefined);
    try {
      this.received = (await this.#begin(answer)) ?? (await this.#read(answer));
    } finally {
      if (!body.readableEnded) body.destroy();
    }
  }

  /** Throws away what is here; what comes belongs to this strong ETag. */
  async restart(etag: string | null = null): Promise<void> {
    this.#hash = createHash('sha256');
    this.#head = [];
    this.etag = etag;
    this.#total = null;
    this.bytes = 0;
    this.isPieced = false;
    await this.#onDisk(async () => this.#handle?.truncate(0));
  }

  /** Closes it, and returns the SHA-256 in hex digits. */
  async finish(): Promise<string> {
    await this.#onDisk(async () => this.#handle?.close());
    this.#handle = null;
    return this.#hash.copy().digest('hex');
  }

  /** Never throws: what stays behind is swept later. */
  async remove(): Promise<void> {
    await this.#handle?.close().catch(() => undefined);
    this.#handle = null;
    await rm(this.path, { force: true }).catch(() => undefined);
  }

  /** Null if the body is to be read. */
  async #begin({ status, headers }: StreamedAnswer): Promise<ReceivedBody | null> {
    const isPlain = encodingOf(headers) === '';
    if (status !== 206) {
      const etag = headerText(headers, 'etag') ?? '';
      // Ranges count the bytes of the encoded form.
      await this.restart(isPlain && /^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag) ? etag : null);
      const length = headerText(headers, 'content-length') ?? '';
      this.#total = isPlain && /^\d{1,15}$/.test(length) ? Number(length) : null;
    } else if (isPlain && this.#isRest(headers)) this.isPieced = true;
    else return { kind: 'wrong_part', reason: 'a part that is not the rest of the file' };
    const refusal = this.#total === null ? null : sizeFault(this.#total, this.#request);
    return refusal === null ? null : { kind: 'refused', refusal };
  }

  /** True if a part is all that is missing of what is here. */
  #isRest(headers: AnswerHeaders): boolean {
    const [, first, last, size] =
      /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/i.exec(headerText(headers, 'content-range') ?? '') ?? [];
    if (this.etag === null || headerText(headers, 'etag') !== this.etag || Number(first) !== this.bytes) return false;
    const whole = size === '*' ? this.#total : Number(size);
    if (this.#total !== null && whole !== this.#total) return false;
    this.#total = whole;
    return whole === null || Number(last) === whole - 1;
  }

  async #read({ body, headers, count }: StreamedAnswer): Promise<ReceivedBody> {
    for await (const piece of decompress(body, encodingOf(headers), count)) {
      const stopped = await this.#take(piece);
      if (stopped !== null) return stopped;
    }
    return this.#end();
  }

  /** Null if the next piece is to be read. */
  async #take(piece: Buffer): Promise<ReceivedBody | null> {
    const request = this.#request;
    const before = this.bytes;
    // Not one byte too many is written.
    if (before + piece.length > request.most) return { kind: 'refused', refusal: tooLarge(request.most) };
    await this.#write(piece);
    if (before < HEAD_BYTES && this.bytes >= HEAD_BYTES) {
      const refusal = kindFault(await kindOf(this.head, null), request, false);
      if (refusal !== null) return { kind: 'refused', refusal };
    }
    return null;
  }

  async #write(piece: Buffer): Promise<void> {
    const missing = HEAD_BYTES - this.bytes;
    // A copy: the piece may be a part of a larger piece of memory, or be used again.
    if (missing > 0) this.#head.push(Buffer.from(piece.subarray(0, missing)));
    await this.#onDisk(async () => {
      this.#handle ??= await opened(this.path);
      for (let at = 0; at < piece.length;) {
        at += (await this.#handle.write(piece, at, piece.length - at, this.bytes + at)).bytesWritten;
      }
    });
    this.#hash.update(piece);
    this.bytes += piece.length;
  }

  /** Throws what a lost connection does for a body that ended too early: one without a length ends with its connection. */
  #end(): ReceivedBody {
    const request = this.#request;
    if (this.#total !== null && this.bytes > this.#total) {
      return { kind: 'wrong_part', reason: 'more bytes than it says' };
    }
    const expected = this.#total ?? request.declared.bytes;
    if (expected !== null && this.bytes < expected) throw new errors.SocketError('the body ended too early');
    if (this.bytes === 0) return { kind: 'empty' };
    const json = this.bytes <= HEAD_BYTES ? looseJson(this.head) : undefined;
    const said = { type: 'application/json', size: null, isDamaged: false };
    const refusal = json === undefined ? null : kindFault(said, request, true);
    return refusal === null ? { kind: 'whole' } : { kind: 'refused', refusal, json };
  }

  async #onDisk(work: () => Promise<void>): Promise<void> {
    try {
      await told(path.dirname(this.path), work);
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }
}

/** The folder may have been cleaned away, as folders for temporary files are. */
async function opened(file: string): Promise<FileHandle> {
  await mkdir(path.dirname(file), { recursive: true });
  return open(file, 'w', MODE);
}

/** Returns a header's only value; null if it is absent, or repeated with different values. */
export function headerText(headers: AnswerHeaders, name: string): string | null {
  const values = new Set([headers[name] ?? []].flat());
  const [only = null] = values;
  return values.size === 1 ? only : null;
}

/** What a short body says, if it is JSON; undefined if it is not. */
function looseJson(head: Buffer): JsonValue | undefined {
  if (textTypeOf(head) !== 'application/json') return undefined;
  try {
    return parseJson(head.toString());
  } catch {
    return undefined;
  }
}
