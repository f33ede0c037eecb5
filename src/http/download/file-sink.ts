import type { Readable } from 'node:stream';
import { errors } from 'undici';
import type { Clock } from '../../model/clock.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { unpackedPieces } from '../body/body.ts';
import type { BodySink, StreamedAnswer } from '../body/body-sink.ts';
import { encodingOf } from '../exchange.ts';
import { conditionalHeaders, contentLength, partTotal, rangeFault, validatorOf } from './byte-range.ts';
import { kindFault, sizeFault, tooLarge, type Refusal } from './content-rules.ts';
import type { DownloadRequest } from './downloader.ts';
import { kindOf } from './file-kind.ts';
import { textTypeOf } from './text-type.ts';
import { HEAD_BYTES, type UnfinishedFile } from './unfinished-file.ts';

/** What became of a body. */
export type Received =
  | { kind: 'whole' }
  | { kind: 'empty' }
  /** `json` is what the service said in place of the file. */
  | { kind: 'refused'; refusal: Refusal; json?: JsonValue | undefined }
  /** A part, behind which the rest is asked for in another turn. */
  | { kind: 'turn_over' }
  /** A part that is not the one that was asked for. */
  | { kind: 'wrong_part'; reason: string }
  /** Our own disk failed. */
  | { kind: 'failed'; error: unknown };

/** What a 304 would mean. */
export type Asked = 'anything' | 'if_changed' | 'if_still_this';

const JSON_FILE = { type: 'application/json', size: null, isDamaged: false };

/** The file in no other form than the one in which it is kept. */
const AS_IT_IS = { accept: '*/*', 'accept-encoding': 'identity' };

/** What a turn brings at least, and how long it takes, before others who wait have theirs: each costs a request. */
const TURN_BYTES = 1_048_576;
const TURN_MS = 2_000;

/** One download, as its sink has to know it. */
export interface SinkOptions {
  request: DownloadRequest;
  file: UnfinishedFile;
  clock: Pick<Clock, 'monotonic'>;
  /** True while others wait for the slot of this download. */
  isWanted: () => boolean;
}

/** Takes the bodies of one download into its file, and stops as soon as one must be refused. */
export class FileSink implements BodySink {
  readonly #request: DownloadRequest;
  readonly #file: UnfinishedFile;
  #received: Received | null = null;
  #asked: Asked = 'anything';
  /** Bytes of the whole file, by the answer whose body is read. */
  #total: number | null = null;
  readonly #clock: SinkOptions['clock'];
  readonly #isWanted: () => boolean;
  /** Where the body that is read begins in the file, and when it came. */
  #turn = { from: 0, at: 0 };

  constructor({ request, file, clock, isWanted }: SinkOptions) {
    this.#request = request;
    this.#file = file;
    this.#clock = clock;
    this.#isWanted = isWanted;
  }

  /** Of the last attempt; null if it brought no body of a file. */
  get received(): Received | null {
    return this.#received;
  }

  get asked(): Asked {
    return this.#asked;
  }

  headers(): Readonly<Record<string, string>> {
    const condition = conditionalHeaders(this.#file, this.#request);
    const isConditional = 'if-none-match' in condition || 'if-modified-since' in condition;
    const hasBegun = this.#file.bytes > 0 && this.#file.validator !== null;
    this.#asked = !isConditional ? 'anything' : hasBegun ? 'if_still_this' : 'if_changed';
    this.#received = null;
    return { ...AS_IT_IS, ...condition };
  }

  async receive(answer: StreamedAnswer): Promise<void> {
    const { body } = answer;
    // What nobody wants the rest of is destroyed, which is no error of anybody's.
    body.on('error', () => undefined);
    try {
      this.#received = (await this.#begin(answer)) ?? (await this.#read(answer));
    } finally {
      if (!body.readableEnded) body.destroy();
    }
  }

  async #read(answer: StreamedAnswer): Promise<Received> {
    if (this.#total !== null && this.#total <= HEAD_BYTES && encodingOf(answer.headers) === '') {
      return this.#readSmall(answer, this.#total);
    }
    for await (const piece of unpackedPieces(answer.body, encodingOf(answer.headers), answer.count)) {
      const stopped = (await this.#take(piece)) ?? this.#turnOver();
      if (stopped !== null) return stopped;
    }
    return this.#end();
  }

  /** Null while it may go on, and for what could not be gone on with later. */
  #turnOver(): Received | null {
    const { bytes, validator } = this.#file;
    if (validator === null || bytes - this.#turn.from < TURN_BYTES || bytes === this.#total) return null;
    const isLong = this.#clock.monotonic() - this.#turn.at >= TURN_MS;
    return isLong && this.#isWanted() ? { kind: 'turn_over' } : null;
  }

  /** In one go: what handles streams costs more than such a body. */
  async #readSmall({ body, count }: StreamedAnswer, most: number): Promise<Received> {
    const pieces: Buffer[] = [];
    let came = 0;
    body.on('data', (piece: Buffer) => {
      count(piece.length);
      pieces.push(piece);
      came += piece.length;
      // A part says how large the whole is, and not how much it sends.
      if (came > most) body.destroy();
    });
    const failed = await endOf(body).catch((error: unknown) => ({ error }));
    if (came > most) return { kind: 'wrong_part', reason: 'more bytes than it says' };
    const stopped = pieces.length === 0 ? null : await this.#take(Buffer.concat(pieces));
    if (stopped !== null) return stopped;
    // What has come is kept: only the rest of it may be asked for.
    if (failed !== undefined) throw failed.error;
    return this.#end();
  }

  /** Null if the body is to be read. */
  async #begin({ status, headers }: StreamedAnswer): Promise<Received | null> {
    const isPart = status === 206;
    const isPlain = encodingOf(headers) === '';
    const fault = isPart ? (isPlain ? rangeFault(headers, this.#file) : 'a part that is packed') : null;
    if (fault !== null) return { kind: 'wrong_part', reason: fault };
    const length = isPlain ? contentLength(headers) : null;
    this.#total = isPart ? (partTotal(headers) ?? this.#file.validator?.total ?? null) : length;
    const refusal = this.#total === null ? null : sizeFault(this.#total, this.#request);
    if (refusal !== null) return { kind: 'refused', refusal };
    this.#turn = { from: isPart ? this.#file.bytes : 0, at: this.#clock.monotonic() };
    if (isPart) {
      this.#file.goOn();
      return null;
    }
    return this.#written(() => this.#file.begin(isPlain ? validatorOf(headers, length) : null));
  }

  /** Null if the next piece is to be read. */
  async #take(piece: Buffer): Promise<Received | null> {
    const before = this.#file.bytes;
    // Not one byte too many is written.
    if (before + piece.length > this.#request.most) return { kind: 'refused', refusal: tooLarge(this.#request.most) };
    const failed = await this.#written(() => this.#file.append(piece));
    const isHeadNew = before < HEAD_BYTES && this.#file.bytes >= HEAD_BYTES;
    if (failed !== null || !isHeadNew) return failed;
    const refusal = kindFault(await kindOf(this.#file.head, null), this.#request, false);
    return refusal === null ? null : { kind: 'refused', refusal };
  }

  /** Throws what a lost connection does for a body that ended too early: one without a length ends with its connection. */
  #end(): Received {
    const { bytes } = this.#file;
    if (this.#total !== null && bytes > this.#total) return { kind: 'wrong_part', reason: 'more bytes than it says' };
    const expected = this.#total ?? this.#request.declared.bytes;
    if (expected !== null && bytes < expected) throw new errors.SocketError('the body ended too early');
    if (bytes === 0) return { kind: 'empty' };
    const json = bytes <= HEAD_BYTES ? looseJson(this.#file.head) : undefined;
    const refusal = json === undefined ? null : kindFault(JSON_FILE, this.#request, true);
    return refusal === null ? { kind: 'whole' } : { kind: 'refused', refusal, json };
  }

  async #written(work: () => Promise<void>): Promise<Received | null> {
    try {
      await work();
      return null;
    } catch (error) {
      return { kind: 'failed', error };
    }
  }
}

/** Rejects with what the stream fails with. */
function endOf(body: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    body.once('end', resolve);
    body.once('error', reject);
    // Each body closes: an error, with its stack, costs as much as all else that is done with a small one.
    body.once('close', () => {
      if (!body.readableEnded) reject(new errors.SocketError('the body ended too early'));
    });
  });
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
