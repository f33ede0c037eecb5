import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';

export interface CachedReaderOptions {
  clock: Clock;
  /** A value is kept at least this long, */
  keepMs: number;
  /** and at least this many times as long as reading it took; one that took less than a second not longer than ten. */
  keepTimes: number;
  /** A caller waits at most this long; the reading goes on for later callers. */
  patienceMs: number;
  /** Awaited before a reading, so that many of them leave room for other work; that wait makes no reading late. */
  turn?: () => Promise<unknown>;
}

/** The last value read, and the error since. */
export interface LastRead<T> {
  /** Null before the first successful reading. */
  value: T | null;
  /** Epoch milliseconds. */
  readAt: number | null;
  /** Null if the last reading succeeded. */
  error: unknown;
  /** A reading has not ended in time; waiting for its turn does not count. */
  isLate: boolean;
}

/**
 * Reads again only once the last value has grown old, so that many viewers cost no more than one and slow readings are
 * rare. After a failure it returns the last good value with the error, and tries again at the next call.
 */
export function createCachedReader<T>(
  read: () => Promise<T>,
  { clock, keepMs, keepTimes, patienceMs, turn }: CachedReaderOptions,
): () => Promise<LastRead<T>> {
  let last: LastRead<T> = { value: null, readAt: null, error: null, isLate: false };
  let goodUntil = Number.NEGATIVE_INFINITY;
  let reading: Promise<LastRead<T>> | null = null;
  let startedAt = Infinity;
  const readNow = async (): Promise<LastRead<T>> => {
    startedAt = Infinity;
    if (turn !== undefined) await turn();
    startedAt = clock.monotonic();
    try {
      last = { value: await read(), readAt: clock.now(), error: null, isLate: false };
      const ended = clock.monotonic();
      goodUntil = ended + Math.max(keepMs, keptFor(keepTimes, ended - startedAt));
    } catch (error) {
      last = { ...last, error };
    }
    reading = null;
    return last;
  };
  return async () => {
    if (reading === null && clock.monotonic() < goodUntil) return last;
    const read = await waitAtMost(clock, patienceMs, (reading ??= readNow()));
    return read?.value ?? { ...last, isLate: clock.monotonic() - startedAt >= patienceMs };
  };
}

const LONG_MS = 1_000;
const SOON_MS = 10_000;

/** On a busy machine everything takes long: what another process has written must be seen all the same. */
function keptFor(times: number, tookMs: number): number {
  return tookMs < LONG_MS ? Math.min(times * tookMs, SOON_MS) : times * tookMs;
}
