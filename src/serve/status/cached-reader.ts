import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';

export interface CachedReaderOptions {
  clock: Clock;
  /** A value is kept at least this long, */
  keepMs: number;
  /** and at least this many times as long as reading it took. */
  keepTimes: number;
  /** A caller waits at most this long; the reading goes on for later callers. */
  patienceMs: number;
  /** Returns true if the last value no longer holds, however recent it is. */
  isStale?: () => boolean;
  /** As long as this returns the same text, so does a reading; null if that is not known. */
  version?: () => string | null;
}

/** The last value read, and the error since. */
export interface LastRead<T> {
  /** Null before the first successful reading. */
  value: T | null;
  /** Epoch milliseconds. */
  readAt: number | null;
  /** Null if the last reading succeeded. */
  error: unknown;
  /** A new reading is due and has not ended yet. */
  isLate: boolean;
}

/**
 * Reads again only once the last value has grown old, so that many viewers cost no more than one and slow readings are
 * rare. After a failure it returns the last good value with the error, and tries again at the next call.
 */
export function createCachedReader<T>(
  read: () => Promise<T>,
  { clock, keepMs, keepTimes, patienceMs, isStale = () => false, version = () => null }: CachedReaderOptions,
): () => Promise<LastRead<T>> {
  let last: LastRead<T> = { value: null, readAt: null, error: null, isLate: false };
  let goodUntil = Number.NEGATIVE_INFINITY;
  let reading: Promise<LastRead<T>> | null = null;
  let seen: string | null = null;
  const readNow = async (): Promise<LastRead<T>> => {
    const began = clock.monotonic();
    seen = null;
    const before = version();
    try {
      last = { value: await read(), readAt: clock.now(), error: null, isLate: false };
      seen = before;
      const ended = clock.monotonic();
      goodUntil = ended + Math.max(keepMs, keepTimes * (ended - began));
    } catch (error) {
      last = { ...last, error };
    }
    reading = null;
    return last;
  };
  return async () => {
    const current = version();
    const isFresh = current === null ? clock.monotonic() < goodUntil : current === seen;
    if (reading === null && isFresh && !isStale())
      return current === null ? last : (last = { ...last, readAt: clock.now() });
    reading ??= readNow();
    const read = await waitAtMost(clock, patienceMs, reading);
    return read?.value ?? { ...last, isLate: true };
  };
}
