import type { Occurrences } from '../../source/cron.ts';
import type { ResourceTimes } from './due.ts';

/** Runs of a resource by its schedule. */
export interface RunsAhead {
  incremental: number;
  full: number;
}

/** Counts what a schedule asks for between two moments, in epoch milliseconds. Runs that fall together count as one each. */
export function runsAhead({ incremental, full }: ResourceTimes, from: number, to: number): RunsAhead {
  return { incremental: countOf(incremental, from, to), full: countOf(full, from, to) };
}

function countOf(occurrences: Occurrences | null, from: number, to: number): number {
  if (occurrences === null) return 0;
  let count = 0;
  for (let at = occurrences(from); at <= to; at = occurrences(at)) count += 1;
  return count;
}
