import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import type { TimeZone } from '../model/time-zone.ts';
import { parseInstant } from '../shape/timestamps.ts';
import { NO_WALK } from '../state/checkpoints.ts';
import type { CheckpointRow } from '../warehouse/own-tables.ts';

/** The part of a page that moves a checkpoint. */
export interface Passed {
  next: string | null;
  records: number;
  /** The service's clock at this page; null where it does not tell. */
  serverDate: number | null;
  /** The total that it tells; absent or null where it tells none. */
  total?: number | null;
  /** Records on the largest page so far that named a next one; absent or 0 where none did. */
  kept?: number;
  /** Of the last page: false where nothing proves that the walk met every record. */
  isProved?: boolean;
  /** Of the last page: true where the walk makes a full one whole. */
  completesFull?: boolean;
  updated: readonly { text: string; at: number }[];
  /** Of local times in `updated`; absent or null where they are UTC. */
  zone?: TimeZone | null;
}

/**
 * The checkpoint after a page: the next position, or, after the last page, a finished walk with its cursor moved.
 * Pure, so that the checkpoint can be committed together with the page's rows.
 */
export function advance(checkpoint: CheckpointRow, page: Passed, now: number): CheckpointRow {
  const clock = checkpoint.walk_clock ?? clockAtStart(page);
  const walked: CheckpointRow = {
    ...checkpoint,
    walk_position: page.next,
    walk_clock: clock,
    walk_high_water: highWater(checkpoint.walk_high_water, page, clock),
    walk_pages: checkpoint.walk_pages + 1,
    walk_records: checkpoint.walk_records + page.records,
    walk_total: leastOf(checkpoint.walk_total, page.total ?? null),
    kept_size: page.kept ? page.kept : checkpoint.kept_size,
  };
  if (page.next !== null) return walked;
  return page.isProved === false ? unproved(walked, now) : finished(walked, page, now);
}

function leastOf(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

/** A walk that may have missed something moves no cursor and counts as none; when it was tried is for the schedule. */
function unproved(walked: CheckpointRow, now: number): CheckpointRow {
  const at = timestampText(now);
  const fullAt = walked.walk_mode === 'full' ? at : walked.unproved_full_at;
  return { ...walked, ...NO_WALK, due_at: null, unproved_at: at, unproved_full_at: fullAt };
}

/**
 * What the service's clock showed when the walk began. Where no answer has a `Date`, the newest record of the first
 * page is a lower bound of it. Never the local clock: it may be wrong by hours.
 */
function clockAtStart(page: Passed): string | null {
  if (page.serverDate !== null) return timestampText(page.serverDate);
  const newest = page.updated.reduce((most, { at }) => Math.max(most, at), -Infinity);
  return Number.isFinite(newest) ? timestampText(newest) : null;
}

/**
 * The newest time seen, as the service wrote it. What lies behind the walk's beginning does not count: it may have
 * been changed after its page was passed, or be a date in the year 9999.
 */
function highWater(before: string | null, page: Passed, clock: string | null): string | null {
  const limit = clock === null ? Infinity : timestampMs(clock);
  let best = before;
  let bestAt = before === null ? -Infinity : instantOf(before, page.zone);
  for (const { text, at } of page.updated) {
    if (at > bestAt && at <= limit) {
      best = text;
      bestAt = at;
    }
  }
  return best;
}

function finished(walked: CheckpointRow, { serverDate, zone, completesFull }: Passed, now: number): CheckpointRow {
  const at = timestampText(now);
  const isFull = walked.walk_mode === 'full' || completesFull === true;
  const cursor = laterCursor(walked, zone);
  const seenAt = serverDate === null ? null : timestampText(serverDate);
  return {
    ...walked,
    ...NO_WALK,
    cursor,
    // The clock of the last page: what the walk has seen was there by then.
    cursor_seen_at: cursor === walked.cursor ? walked.cursor_seen_at : seenAt,
    checked_at: walked.walk_clock,
    last_success_at: at,
    last_full_at: isFull ? at : walked.last_full_at,
    unproved_at: null,
    unproved_full_at: isFull ? null : walked.unproved_full_at,
    full_credential: isFull ? walked.walk_credential : walked.full_credential,
    due_at: null,
  };
}

/** Records without a time of their own are still filtered by the service's: then its clock is the cursor. */
function laterCursor(walked: CheckpointRow, zone: Passed['zone']): string | null {
  const seen = walked.walk_high_water ?? (walked.cursor === null || walked.walk_records > 0 ? clockText(walked) : null);
  if (seen === null) return walked.cursor;
  if (walked.cursor === null || walked.walk_mode === 'full') return seen;
  return instantOf(seen, zone) > instantOf(walked.cursor, zone) ? seen : walked.cursor;
}

function clockText(walked: CheckpointRow): string | null {
  return walked.walk_clock === null ? null : new Date(timestampMs(walked.walk_clock)).toISOString();
}

function instantOf(text: string, zone: Passed['zone']): number {
  return parseInstant(/^\d+(\.\d+)?$/.test(text) ? Number(text) : text, zone)?.epochMs ?? -Infinity;
}
