// Limits how often the same event is logged: anyone on the network can cause refusals, and an outage repeats its error.
import type { Clock } from '../model/clock.ts';

const LOG_INTERVAL_MS = 60_000;
/** Unknown senders choose some of the keys: more than this many are not remembered. */
const MAX_KEYS = 1_000;

/**
 * Counts an event, and returns how often it has happened since it was last logged; null if it was logged within the last
 * minute, and must not be logged again.
 */
export type CountToLog = (key: string) => number | null;

export function createCountToLog(clock: Clock): CountToLog {
  const events = new Map<string, { count: number; logAt: number }>();
  return (key) => {
    const { count, logAt } = events.get(key) ?? { count: 0, logAt: -Infinity };
    const isDue = clock.monotonic() >= logAt;
    if (events.size > MAX_KEYS) events.clear();
    events.set(key, isDue ? { count: 0, logAt: clock.monotonic() + LOG_INTERVAL_MS } : { count: count + 1, logAt });
    return isDue ? count + 1 : null;
  };
}
