import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { NO_WALK } from '../state/checkpoints.ts';
import type { CheckpointRow } from '../warehouse/own-tables.ts';
import { momentOf } from './since.ts';

/** A record's key and the service's own time of it: its text, and the moment in epoch milliseconds. */
export interface DatedKey {
  key: string;
  text: string;
  at: number;
}

/** The part of a page that moves a checkpoint. */
export interface Passed {
  next: string | null;
  records: number;
  /** The service's clock at this page; null where it does not tell. */
  serverDate: number | null;
  updated: readonly DatedKey[];
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
    ...highWater(checkpoint, page, clock),
    walk_pages: checkpoint.walk_pages + 1,
    walk_records: checkpoint.walk_records + page.records,
  };
  return page.next === null ? finished(walked, page.serverDate, now) : walked;
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
function highWater(
  { walk_high_water, walk_high_key }: CheckpointRow,
  page: Passed,
  clock: string | null,
): Pick<CheckpointRow, 'walk_high_water' | 'walk_high_key'> {
  const limit = clock === null ? Infinity : timestampMs(clock);
  let best = { walk_high_water, walk_high_key };
  let bestAt = walk_high_water === null ? -Infinity : momentOf(walk_high_water);
  for (const { key, text, at } of page.updated) {
    if (at > bestAt && at <= limit) {
      best = { walk_high_water: text, walk_high_key: key };
      bestAt = at;
    }
  }
  return best;
}

function finished(walked: CheckpointRow, serverDate: number | null, now: number): CheckpointRow {
  const at = timestampText(now);
  const isFull = walked.walk_mode === 'full';
  const isOther = isFull && isOtherCredential(walked);
  return {
    ...walked,
    ...NO_WALK,
    ...laterCursor(walked),
    cursor_seen_at: cursorSeenAt(walked, serverDate),
    checked_at: walked.walk_clock,
    last_success_at: at,
    last_full_at: isFull ? at : walked.last_full_at,
    // Under another credential it may have seen less: the sweep compares the two, and only then it is the known one.
    walk_credential: isOther ? walked.walk_credential : null,
    full_credential: isFull && !isOther ? walked.walk_credential : walked.full_credential,
    due_at: null,
  };
}

/** In place of a credential: a walk that was made under several. */
export const SEVERAL = 'several';

/** True where a walk is, or was, made under another credential than the last whole full one. */
export function isOtherCredential({ walk_credential, full_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== full_credential;
}

/**
 * The clock of the last page: what the walk has seen was there by then. A walk that asked for the overlap again and
 * moved nothing leaves it open: whoever proves that the filter has listed the cursor's record may say since when
 * (`filter/prove.ts`), and only from then on the overlap may be left out.
 */
function cursorSeenAt(walked: CheckpointRow, serverDate: number | null): string | null {
  const hasMoved = laterCursor(walked).cursor !== walked.cursor;
  if (hasMoved || walked.walk_mode === 'full') return serverDate === null ? null : timestampText(serverDate);
  return isBehindCursor(walked) ? walked.cursor_seen_at : null;
}

/** True of a walk that asks only for what lies behind the cursor: the record that set it is not listed. */
export function isBehindCursor({ walk_since, cursor }: CheckpointRow): boolean {
  return walk_since !== null && cursor !== null && momentOf(walk_since) > momentOf(cursor);
}

type Cursor = Pick<CheckpointRow, 'cursor' | 'cursor_key'>;

/** Records without a time of their own are still filtered by the service's: then its clock is the cursor. */
function laterCursor(walked: CheckpointRow): Cursor {
  const { cursor, cursor_key, walk_high_water, walk_high_key } = walked;
  const known = { cursor, cursor_key };
  const isOpen = cursor === null || walked.walk_records > 0;
  const text = walk_high_water ?? (isOpen ? clockText(walked.walk_clock) : null);
  if (text === null) return known;
  const seen = { cursor: text, cursor_key: walk_high_water === null ? null : walk_high_key };
  if (cursor === null || walked.walk_mode === 'full') return seen;
  return momentOf(text) > momentOf(cursor) ? seen : known;
}

function clockText(clock: string | null): string | null {
  return clock === null ? null : new Date(timestampMs(clock)).toISOString();
}
