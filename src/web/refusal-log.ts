import type { Clock } from '../model/clock.ts';

/** Refusals that are logged within a minute; more are counted. */
const TOLD_A_MINUTE = 10;
const MINUTE_MS = 60_000;

/** A line per refused form; `further` of a minute were not told for their number. */
export function refusalLog(clock: Clock, tell: (line: { reason: string; further?: number }) => void) {
  let began = -Infinity;
  let count = 0;
  return (reason: string): void => {
    const isNew = clock.monotonic() - began >= MINUTE_MS;
    const further = isNew ? Math.max(0, count - TOLD_A_MINUTE) : 0;
    if (isNew) [began, count] = [clock.monotonic(), 0];
    count += 1;
    if (count <= TOLD_A_MINUTE) tell({ reason, ...(further > 0 && { further }) });
  };
}
