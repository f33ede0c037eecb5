// Limits the memory of all answers of this process together. Example: ten sources are scanned at once, and each gets a
// page of 100 MB. Each answer reserves what it needs while it is read; those that do not fit are requested again
// later.
import v8 from 'node:v8';
import { SyncError } from '../../model/errors.ts';

/** An answer up to this size never waits for larger ones. */
const SMALL_ANSWER_BYTES = 2_097_152;
/** Fraction of the heap for all answers; one answer at a time may take as much again. */
const HEAP_FRACTION = 1 / 4;
const MAX_LIMIT_BYTES = 2 ** 30;
const MIN_LIMIT_BYTES = 2 ** 25;

/** A fraction of Node's heap limit, which follows that of a container. */
const LIMIT_BYTES = Math.min(
  Math.max(v8.getHeapStatistics().heap_size_limit * HEAP_FRACTION, MIN_LIMIT_BYTES),
  MAX_LIMIT_BYTES,
);

/** Bytes that all answers have reserved. */
let reserved = 0;
/**
 * The one answer that may exceed the limit. Without it, two scans could wait for each other: each holds pages that were
 * prefetched, and needs memory for the page before them.
 */
let exceeding: symbol | null = null;

/** Memory reserved for one answer, from the first byte of its body until the answer is no longer used. */
export class MemoryReservation {
  readonly #id = Symbol('answer');
  #bytes = 0;

  /**
   * Sets the reserved bytes. Throws `SyncError`: `memory_full` (retry) if other answers use the rest, `body_too_large`
   * (stop) if the answer can never fit.
   */
  resize(bytes: number): void {
    if (bytes > this.#bytes && bytes > SMALL_ANSWER_BYTES) {
      if (bytes > LIMIT_BYTES) throw tooLarge();
      if (reserved - this.#bytes + bytes > LIMIT_BYTES && exceeding !== this.#id) throw full();
    }
    reserved += bytes - this.#bytes;
    this.#bytes = bytes;
  }

  /** Reserves more bytes. Throws as `resize`. */
  grow(bytes: number): void {
    this.resize(this.#bytes + bytes);
  }

  /** From now until `release` this answer may exceed the limit. Returns false if another one may. */
  tryToExceed(): boolean {
    exceeding ??= this.#id;
    return exceeding === this.#id;
  }

  /** Releases all of it. May be called again. */
  release(): void {
    this.resize(0);
    if (exceeding === this.#id) exceeding = null;
  }
}

function full(): SyncError {
  const message = 'the answers that are being read, of all sources together, use all the memory that answers may use';
  return new SyncError('memory_full', message, { recovery: 'retry' });
}

function tooLarge(): SyncError {
  const limit = `${Math.round(LIMIT_BYTES / 2 ** 20)} MiB`;
  const message = `the answer would need more than the ${limit} of memory that one answer may use`;
  return new SyncError('body_too_large', message, { recovery: 'stop' });
}
