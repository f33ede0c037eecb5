import type { Clock } from '../../model/clock.ts';

export interface CachedReaderOptions {
  clock: Clock;
  /** What was read is good for so long, */
  keepMs: number;
  /** and for so many times as long as the reading took. */
  keepTimes: number;
  /** Who asks waits no longer than this; the reading goes on for those who ask later. */
  patienceMs: number;
  /** True where what was read last no longer holds, however young it is. */
  isStale?: () => boolean;
}

/** What was read last, and what went wrong since. */
export interface LastRead<T> {
  /** Null before the first reading that ended well. */
  value: T | null;
  /** Epoch milliseconds. */
  readAt: number | null;
  /** Null where the last reading ended well. */
  error: unknown;
  /** A new reading was due and has not ended yet. */
  isLate: boolean;
}

/**
 * Reads again only when what was read has grown old, so that many viewers cost no more than one and slow readings come
 * rarely. After a failure it tells the last good value beside the error, and tries again at the next call.
 */
export function createCachedReader<T>(
  read: () => Promise<T>,
  { clock, keepMs, keepTimes, patienceMs, isStale = () => false }: CachedReaderOptions,
): () => Promise<LastRead<T>> {
  let last: LastRead<T> = { value: null, readAt: null, error: null, isLate: false };
  let goodUntil = Number.NEGATIVE_INFINITY;
  let reading: Promise<LastRead<T>> | null = null;
  const readNow = async (): Promise<LastRead<T>> => {
    const began = clock.monotonic();
    try {
      last = { value: await read(), readAt: clock.now(), error: null, isLate: false };
      const ended = clock.monotonic();
      goodUntil = ended + Math.max(keepMs, keepTimes * (ended - began));
    } catch (error) {
      last = { ...last, error };
    }
    reading = null;
    return last;
  };
  return async () => {
    if (reading === null && clock.monotonic() < goodUntil && !isStale()) return last;
    reading ??= readNow();
    const waiting = new AbortController();
    const patience = clock.sleep(patienceMs, waiting.signal).then(
      () => ({ ...last, isLate: true }),
      () => last,
    );
    return Promise.race([reading, patience]).finally(() => waiting.abort());
  };
}
