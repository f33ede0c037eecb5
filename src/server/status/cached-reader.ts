// Caches a value that is slow to read, and returns the last one if a read fails or takes too long.
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';

export interface CachedReaderOptions {
  clock: Clock;
  /** A value is cached at least this long. */
  keepMs: number;
  /** It is cached at least this many times as long as reading it took. */
  keepFactor: number;
  /** A caller waits at most this long; the read continues for later callers. */
  timeoutMs: number;
  /** Awaited before a read, so that many reads leave room for other work; this wait makes no read late. */
  beforeRead?: () => Promise<unknown>;
}

export interface LastRead<T> {
  /** Null before the first successful read. */
  value: T | null;
  /** Epoch milliseconds. */
  readAt: number | null;
  /** Null if the last read succeeded. */
  error: unknown;
  /** A read has not ended in time. */
  isLate: boolean;
}

/**
 * Reads again only once the last value is old, so that many viewers cost no more than one and slow reads are rare.
 * After a failure it returns the last good value with the error, and tries again at the next call.
 */
export function createCachedReader<T>(
  read: () => Promise<T>,
  { clock, keepMs, keepFactor, timeoutMs, beforeRead }: CachedReaderOptions,
): () => Promise<LastRead<T>> {
  let last: LastRead<T> = { value: null, readAt: null, error: null, isLate: false };
  let goodUntil = Number.NEGATIVE_INFINITY;
  /** The read in progress, which all callers share. */
  let reading: Promise<LastRead<T>> | null = null;
  /** Infinity while the read waits in `beforeRead`: then it is not late. */
  let startedAt = Infinity;
  const readNow = async (): Promise<LastRead<T>> => {
    startedAt = Infinity;
    if (beforeRead !== undefined) await beforeRead();
    startedAt = clock.monotonic();
    try {
      last = { value: await read(), readAt: clock.now(), error: null, isLate: false };
      const readyAt = clock.monotonic();
      goodUntil = readyAt + Math.max(keepMs, keepFactor * (readyAt - startedAt));
    } catch (error) {
      last = { ...last, error };
    }
    reading = null;
    return last;
  };
  return async () => {
    if (reading === null && clock.monotonic() < goodUntil) return last;
    const read = await waitAtMost(clock, timeoutMs, (reading ??= readNow()));
    return read?.value ?? { ...last, isLate: clock.monotonic() - startedAt >= timeoutMs };
  };
}
