import type { ScheduleSettings } from '../../settings/settings.ts';
import type { Occurrences } from '../../source/cron.ts';
import { timesOf } from './due.ts';

/** Runs of a resource by its schedule. */
export interface RunsAhead {
  incremental: number;
  full: number;
}

/**
 * Counts what a schedule asks for of a resource between two moments, in epoch milliseconds. Runs that fall together count
 * as one each.
 */
export type CountRuns = (resource: string, hasFilter: boolean) => RunsAhead;

/** Returns what counts them for the resources of a source: most of these have the same times, which are counted once. */
export function runsAhead(source: string, schedule: ScheduleSettings, from: number, to: number): CountRuns {
  const counted = new Map<string, RunsAhead>();
  return (resource, hasFilter) => {
    const key = JSON.stringify([hasFilter, schedule.resources[resource]]);
    const { incremental, full } = timesOf({ source, resource, hasFilter }, schedule);
    const runs = counted.get(key) ?? { incremental: countOf(incremental, from, to), full: countOf(full, from, to) };
    counted.set(key, runs);
    return runs;
  };
}

function countOf(occurrences: Occurrences | null, from: number, to: number): number {
  if (occurrences === null) return 0;
  let count = 0;
  for (let at = occurrences(from); at <= to; at = occurrences(at)) count += 1;
  return count;
}
