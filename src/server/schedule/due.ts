import { createHash } from 'node:crypto';
import type { ScheduleSettings } from '../../config/settings.ts';
import { occurrencesOf, type Occurrences } from '../../config/profile/cron.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';

/** The part of a checkpoint that says what is due. */
export type StoredSuccess = Pick<
  CheckpointRow,
  'last_success_at' | 'last_full_at' | 'unproved_at' | 'unproved_full_at' | 'due_at' | 'walk_mode' | 'walk_started_at'
>;

/** Monotonic milliseconds since the stored success; null if this process cannot know. */
export interface Elapsed {
  success: number | null;
  full: number | null;
}

export interface DueInput {
  times: ResourceTimes;
  stored: StoredSuccess | null;
  elapsed: Elapsed;
  /** Epoch milliseconds, as are all moments below. */
  now: number;
  /** When this process began to watch the resource. */
  watchedSince: number;
}

export interface Due {
  /** The command to run now, unless the resource is parked; null if nothing is due. */
  command: SyncCommand | null;
  /** The service asked to be left alone until then; null if it did not, or if that is over. */
  parkedUntil: number | null;
  /** When the next run is due, in the past if one is due now; null for never. */
  nextAt: number | null;
  /** From when on a person should look; null for never. */
  overdueAt: number | null;
}

/** An occurrence may be late, or its walk slow, by this much before it counts as overdue. */
const OVERDUE_GRACE_MS = 5 * 60_000;

/** A first walk takes as long as it takes, but after this long a person should look. */
const FIRST_WALK_MS = 24 * 3_600_000;

/**
 * Finds what is due from the stored state alone, so that one missed tick, or a hundred, make one run. A resource
 * that was never walked whole, or whose full walk is unfinished, is due at once. Pure.
 */
export function dueOf(input: DueInput): Due {
  const { times, stored, now } = input;
  const parkedUntil = parkedUntilOf(stored, now);
  if (times.isOff) return { command: null, parkedUntil, nextAt: null, overdueAt: null };
  const fullAt = fullDueAt(input);
  const incrementalAt = incrementalDueAt(input);
  const first = Math.min(fullAt, incrementalAt);
  return {
    command: fullAt <= now ? 'backfill' : incrementalAt <= now ? 'sync' : null,
    parkedUntil,
    nextAt: finite(Math.max(first, parkedUntil ?? first)),
    overdueAt: finite(overdueAt(input)),
  };
}

function parkedUntilOf(stored: StoredSuccess | null, now: number): number | null {
  const until = momentOf(stored?.due_at ?? null);
  return until !== null && until > now ? until : null;
}

function fullDueAt({ times, stored, elapsed, now }: DueInput): number {
  if (stored === null || stored.walk_mode === 'full') return now;
  // A walk that ended and proved nothing would prove nothing at once again.
  if (stored.unproved_full_at !== null) return dueAt(times.full, stored.unproved_full_at, null, { times, now });
  if (stored.last_full_at === null) return now;
  return dueAt(times.full, stored.last_full_at, elapsed.full, { times, now });
}

function incrementalDueAt(input: DueInput): number {
  const { times, stored, elapsed } = input;
  const unproved = stored?.unproved_at ?? null;
  if (unproved !== null) return dueAt(times.incremental, unproved, null, input);
  return dueAt(times.incremental, stored?.last_success_at ?? null, elapsed.success, input);
}

/** When the next run after a success is due: at the next occurrence, all of them moved by the jitter. */
function dueAt(
  occurrences: Occurrences | null,
  success: string | null,
  elapsed: number | null,
  { times, now }: Pick<DueInput, 'times' | 'now'>,
): number {
  const at = momentOf(success);
  if (occurrences === null || at === null) return Infinity;
  const next = (after: number): number => occurrences(after - times.jitter) + times.jitter;
  const regular = next(at);
  return at <= now ? regular : afterFutureSuccess({ at, regular, elapsed, now }, next);
}

/**
 * A success that lies ahead of the clock: the clock was set back since. The occurrences that come a second time must
 * not be run a second time, and the copy must not stand still until the clock is there again. So as much real time must
 * pass as there would have been to the next occurrence, and then comes an occurrence of the new clock. Where nobody
 * knows how much has passed, the success is believed as long as it lies ahead less than it would have been valid.
 */
function afterFutureSuccess(
  { at, regular, elapsed, now }: { at: number; regular: number; elapsed: number | null; now: number },
  next: Occurrences,
): number {
  const gap = regular - at;
  if (elapsed === null) return at - now > gap ? now : regular;
  const onThisClock = now - elapsed;
  return Math.min(regular, next(onThisClock + gap - 1));
}

/** Two occurrences have passed without a success, or a first walk has not come to its end. */
function overdueAt({ times, stored, now, watchedSince }: DueInput): number {
  if (stored === null || stored.last_full_at === null) {
    return (momentOf(stored?.walk_started_at ?? null) ?? watchedSince) + FIRST_WALK_MS;
  }
  const secondMissed = (occurrences: Occurrences | null, success: string | null): number => {
    const at = momentOf(success);
    if (occurrences === null || at === null) return Infinity;
    return occurrences(occurrences(Math.min(at, now) - times.jitter)) + times.jitter + OVERDUE_GRACE_MS;
  };
  return Math.min(
    secondMissed(times.full, stored.last_full_at),
    secondMissed(times.incremental, stored.last_success_at),
  );
}

function momentOf(text: string | null): number | null {
  return text === null ? null : timestampMs(text);
}

function finite(moment: number): number | null {
  return Number.isFinite(moment) ? moment : null;
}

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
