import { createHash } from 'node:crypto';
import type { ScheduleSettings } from '../../settings/settings.ts';
import { occurrencesOf, type Occurrences } from '../../source/cron.ts';

/** When one resource is walked how; null for never. */
export interface ResourceTimes {
  incremental: Occurrences | null;
  full: Occurrences | null;
  /** Milliseconds by which every occurrence is later. */
  jitter: number;
  /** Nothing is scheduled, not even the first walk: the settings say null twice. */
  isOff: boolean;
}

interface ScheduledResource {
  source: string;
  resource: string;
  /** Whether the service can be asked for changes only; if not, every walk is full and only `full` counts. */
  hasFilter: boolean;
}

/** The times of a resource after its own settings. */
export function timesOf({ source, resource, hasFilter }: ScheduledResource, schedule: ScheduleSettings): ResourceTimes {
  const own = schedule.resources[resource] ?? {};
  const incremental = own.incremental === undefined ? schedule.incremental : own.incremental;
  const full = own.full === undefined ? schedule.full : own.full;
  const occurrences = (expression: string | null): Occurrences | null =>
    expression === null ? null : occurrencesOf(expression, schedule.timezone);
  return {
    incremental: hasFilter ? occurrences(incremental) : null,
    full: occurrences(full),
    jitter: Math.floor(schedule.jitter * partOf(`${source} ${resource}`)),
    isOff: incremental === null && full === null,
  };
}

/** The same number for the same name in every process, 0 <= x < 1. */
function partOf(name: string): number {
  return createHash('sha256').update(name).digest().readUInt32BE() / 2 ** 32;
}
