// Computes from schedule and stored state which sync of a resource is due, when the next is, and when it is overdue.
import { createHash } from 'node:crypto';
import { type Occurrences, occurrencesOf } from '../../config/cron.ts';
import type { ScheduleSettings } from '../../config/settings.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { SyncCommand } from '../../sync/plan.ts';

/**
 * The part of a checkpoint that says what is due. `unproved_at` and `unproved_full_at` are the ends of later scans that
 * could not be verified; `due_at` is the end of a wait that the service has requested.
 */
export type StoredSuccess = Pick<
  CheckpointRow,
  'last_success_at' | 'last_full_at' | 'unproved_at' | 'unproved_full_at' | 'due_at' | 'walk_mode' | 'walk_started_at'
>;

interface DueInput {
  times: ResourceTimes;
  stored: StoredSuccess | null;
  /** Epoch milliseconds, as are all times below. */
  now: number;
  /** When this process started to watch the resource. */
  watchedSince: number;
}

export interface Due {
  /** The command to run now, unless `parkedUntil` forbids it; null if nothing is due. */
  command: SyncCommand | null;
  /** The service asked to wait until then; null if it did not, or if that is over. */
  parkedUntil: number | null;
  /** When the next run is due, in the past if one is due now; null for never. */
  nextAt: number | null;
  /** From when on a user should look; null for never. */
  overdueAt: number | null;
}

/** A run may start late, or take long, by this much before it counts as overdue. */
const OVERDUE_GRACE_MS = 5 * 60_000;

/** A first full scan counts as overdue after this time. */
const FIRST_SCAN_MS = 24 * 3_600_000;

/**
 * Finds what is due from the stored state alone, so that any number of missed ticks make one run. A resource whose full
 * scan is unfinished, or has never been done, is due at once.
 */
export function computeDue(input: DueInput): Due {
  const { times, stored, now } = input;
  const waitEnd = toMs(stored?.due_at);
  const parkedUntil = waitEnd !== null && waitEnd > now ? waitEnd : null;
  if (times.isOff) return { command: null, parkedUntil, nextAt: null, overdueAt: null };
  const fullAt = computeFullDueAt(input);
  const incrementalAt = computeIncrementalDueAt(input);
  const firstAt = Math.min(fullAt, incrementalAt);
  return {
    command: fullAt <= now ? 'backfill' : incrementalAt <= now ? 'sync' : null,
    parkedUntil,
    nextAt: finiteOrNull(Math.max(firstAt, parkedUntil ?? firstAt)),
    overdueAt: finiteOrNull(computeOverdueAt(input)),
  };
}

function computeFullDueAt({ times, stored, now }: DueInput): number {
  if (stored === null || stored.walk_mode === 'full') return now;
  // A full scan that could not be verified is not repeated at once.
  const last = stored.unproved_full_at ?? stored.last_full_at;
  return last === null ? now : findNextRun(times.full, last, times.jitter, now);
}

function computeIncrementalDueAt({ times, stored, now }: DueInput): number {
  return findNextRun(times.incremental, stored?.unproved_at ?? stored?.last_success_at ?? null, times.jitter, now);
}

/**
 * Returns the next occurrence after a success, moved by the jitter. A success in the future means that the clock was set
 * back. If it is further ahead than one interval of the schedule, the next run is due now, and stores the correct time.
 */
function findNextRun(occurrences: Occurrences | null, success: string | null, jitter: number, now: number): number {
  const at = toMs(success);
  if (occurrences === null || at === null) return Infinity;
  const next = occurrences(at - jitter) + jitter;
  return at - now > next - at ? now : next;
}

/** A resource is overdue after two occurrences without a success, or without its first full scan in time. */
function computeOverdueAt({ times, stored, now, watchedSince }: DueInput): number {
  if (stored === null || stored.last_full_at === null) {
    return (toMs(stored?.walk_started_at) ?? watchedSince) + FIRST_SCAN_MS;
  }
  const secondMissed = (occurrences: Occurrences | null, success: string | null): number => {
    const at = toMs(success);
    if (occurrences === null || at === null) return Infinity;
    return occurrences(occurrences(Math.min(at, now) - times.jitter)) + times.jitter + OVERDUE_GRACE_MS;
  };
  return Math.min(
    secondMissed(times.full, stored.last_full_at),
    secondMissed(times.incremental, stored.last_success_at),
  );
}

function toMs(text: string | null | undefined): number | null {
  return text === null || text === undefined ? null : timestampMs(text);
}

function finiteOrNull(ms: number): number | null {
  return Number.isFinite(ms) ? ms : null;
}

/** When one resource is scanned; null for never. */
export interface ResourceTimes {
  incremental: Occurrences | null;
  full: Occurrences | null;
  /** Milliseconds by which every occurrence is delayed. */
  jitter: number;
  /** True if the settings say null twice: then not even the first scan is scheduled. */
  isOff: boolean;
}

interface ScheduledResource {
  source: string;
  resource: string;
  /** False if the service cannot list changes only: then every scan is full. */
  hasFilter: boolean;
}

export function resourceTimes(
  { source, resource, hasFilter }: ScheduledResource,
  schedule: ScheduleSettings,
): ResourceTimes {
  // Null in the settings of the resource means never; absent means as in the settings of the source.
  const override = schedule.resources[resource] ?? {};
  const incremental = override.incremental === undefined ? schedule.incremental : override.incremental;
  const full = override.full === undefined ? schedule.full : override.full;
  const occurrences = (expression: string | null): Occurrences | null =>
    expression === null ? null : occurrencesOf(expression, schedule.timezone);
  // Every process computes the same share of the jitter, from 0 up to 1.
  const share = createHash('sha256').update(`${source} ${resource}`).digest().readUInt32BE() / 2 ** 32;
  return {
    incremental: hasFilter ? occurrences(incremental) : null,
    full: occurrences(full),
    jitter: Math.floor(schedule.jitter * share),
    isOff: incremental === null && full === null,
  };
}
