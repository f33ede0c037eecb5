// Computes the checkpoint after a page (`checkpointAfter`): the next position, or the new cursor after the last page.
//
// The cursor is the time up to which every change is stored; the next sync requests `updated_since=<cursor>`. The columns
// `walk_*` describe the scan in progress, `unproved_*` the end of a scan that may have missed records.
import { toEpochMs } from '../pagination/requests/filter-query.ts';
import type { CheckpointRow } from '../database/own-tables.ts';
import { NO_SCAN } from '../database/state/checkpoints.ts';
import type { DatedKey } from '../load/page-loader.ts';
import type { TimeZone } from '../model/time-zone.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';

/** The part of a page that moves a checkpoint. */
interface LoadedPage {
  /** The stored position after it; null at the beginning. */
  next: string | null;
  isLast: boolean;
  /** Number of pages of the service that it consists of; 1 if absent. */
  pages?: number;
  records: number;
  /** How many of `records` an earlier page of the scan has counted already; absent or 0 if none. */
  repeatedRecords?: number;
  /** The service's clock at this page; null if it is not known. */
  serverDate: number | null;
  /** Number of records in the whole listing, if the service reports it. */
  total?: number | null;
  /** Records on the largest page so far that named a next one; absent or 0 if none did. */
  fullPageSize?: number;
  /** Of the last page: false if the scan may not have seen every record. */
  isComplete?: boolean;
  updated: readonly DatedKey[];
  /** Zone of local times in `updated`; absent or null if they are UTC. */
  zone?: TimeZone | null;
}

/** Returns the checkpoint to be committed together with the rows of a page; `now` in epoch milliseconds. */
export function checkpointAfter(checkpoint: CheckpointRow, page: LoadedPage, now: number): CheckpointRow {
  const scanned = advanceScan(checkpoint, page, now);
  if (!page.isLast) return scanned;
  return page.isComplete === false ? endIncompleteScan(scanned, now) : finishScan(scanned, page, now);
}

function advanceScan(checkpoint: CheckpointRow, page: LoadedPage, now: number): CheckpointRow {
  const clock = checkpoint.walk_clock ?? findClockAtStart(page, now);
  const { total = null } = page;
  const { walk_total: known } = checkpoint;
  return {
    ...checkpoint,
    walk_position: page.next,
    walk_clock: clock,
    ...findNewestTime(checkpoint, page, clock),
    walk_pages: checkpoint.walk_pages + (page.pages ?? 1),
    walk_records: checkpoint.walk_records + page.records - (page.repeatedRecords ?? 0),
    walk_total: total === null || known === null ? (total ?? known) : Math.min(total, known),
    kept_size: page.fullPageSize ? page.fullPageSize : checkpoint.kept_size,
  };
}

/** A scan that may have missed records moves no cursor, and does not count as a full one; the schedule needs its time. */
function endIncompleteScan(scanned: CheckpointRow, now: number): CheckpointRow {
  const at = timestampText(now);
  const unproved_full_at = scanned.walk_mode === 'full' ? at : scanned.unproved_full_at;
  const walk_credential = findNewCredential(scanned);
  return { ...scanned, ...NO_SCAN, walk_credential, due_at: null, unproved_at: at, unproved_full_at };
}

/** A service's clock may be this far ahead of this machine's; a record with a later time does not show it. */
const MAX_AHEAD_MS = 86_400_000;

/**
 * Returns the service's clock when the scan began. If no response has a `Date`, the newest record of the first page is a
 * lower bound of it, unless it is dated in the future. Never returns the local clock, which may be wrong by hours.
 */
function findClockAtStart(page: LoadedPage, now: number): string | null {
  if (page.serverDate !== null) return timestampText(page.serverDate);
  const plausible = page.updated.filter(({ at }) => at <= now + MAX_AHEAD_MS);
  const newest = plausible.reduce((most, { at }) => Math.max(most, at), -Infinity);
  return Number.isFinite(newest) ? timestampText(newest) : null;
}

/**
 * Returns the newest time of change so far, as the service wrote it. Times after the beginning of the scan do not count: the
 * record may have been changed after its page was read, or be dated in the year 9999.
 */
function findNewestTime(
  { walk_high_water, walk_high_key }: CheckpointRow,
  page: LoadedPage,
  clock: string | null,
): Pick<CheckpointRow, 'walk_high_water' | 'walk_high_key'> {
  const limit = clock === null ? Infinity : timestampMs(clock);
  let newest = { walk_high_water, walk_high_key };
  let newestAt = walk_high_water === null ? -Infinity : toEpochMs(walk_high_water, page.zone);
  for (const { key, text, at } of page.updated) {
    if (at > newestAt && at <= limit) {
      newest = { walk_high_water: text, walk_high_key: key };
      newestAt = at;
    }
  }
  return newest;
}

function finishScan(scanned: CheckpointRow, page: LoadedPage, now: number): CheckpointRow {
  const at = timestampText(now);
  const isFull = scanned.walk_mode === 'full';
  const newCredential = findNewCredential(scanned);
  return {
    ...scanned,
    ...NO_SCAN,
    ...chooseCursor(scanned, page.zone),
    cursor_seen_at: findCursorSeenAt(scanned, page),
    checked_at: scanned.walk_clock,
    last_success_at: at,
    last_full_at: isFull ? at : scanned.last_full_at,
    unproved_at: null,
    unproved_full_at: isFull ? null : scanned.unproved_full_at,
    walk_credential: newCredential,
    full_credential: isFull && newCredential === null ? scanned.walk_credential : scanned.full_credential,
    due_at: null,
  };
}

/** The value of `walk_credential` for a scan whose pages were requested under several credentials. */
export const SEVERAL_CREDENTIALS = 'several';

/** True if a scan is, or was, made under another credential than the last complete full scan. */
export function isOtherCredential({ walk_credential, full_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== full_credential;
}

/**
 * Returns the credential of a full scan if it is another one than before, else null. It may see less, so it becomes
 * `full_credential` only after `detectDeletes` has compared what the two list.
 */
function findNewCredential(scanned: CheckpointRow): string | null {
  return scanned.walk_mode === 'full' && isOtherCredential(scanned) ? scanned.walk_credential : null;
}

/**
 * Returns the service's clock when the cursor was first seen: that of the last page if the scan moved the cursor. Null after
 * a scan that requested the look-back again and moved nothing: the next one may leave the look-back out only after
 * `filter/verify-filter.ts` has verified that the filter lists the cursor's record.
 */
function findCursorSeenAt(scanned: CheckpointRow, { serverDate, zone }: LoadedPage): string | null {
  const hasMoved = chooseCursor(scanned, zone).cursor !== scanned.cursor;
  if (hasMoved || scanned.walk_mode === 'full') return serverDate === null ? null : timestampText(serverDate);
  return startsAfterCursor(scanned, zone) ? scanned.cursor_seen_at : null;
}

/** True for a scan that requests only what is after the cursor, so that the record that set the cursor is not listed. */
export function startsAfterCursor({ walk_since, cursor }: CheckpointRow, zone: LoadedPage['zone']): boolean {
  return walk_since !== null && cursor !== null && toEpochMs(walk_since, zone) > toEpochMs(cursor, zone);
}

/**
 * Returns the cursor after a scan. If no record contains its time of change, the service filters by times that it does not
 * show: then its clock is the cursor, unless a later scan listed nothing.
 */
function chooseCursor(scanned: CheckpointRow, zone: LoadedPage['zone']): Pick<CheckpointRow, 'cursor' | 'cursor_key'> {
  const { cursor, cursor_key, walk_high_water, walk_high_key } = scanned;
  const known = { cursor, cursor_key };
  const isFirstOrListsRecords = cursor === null || scanned.walk_records > 0;
  const clock = isFirstOrListsRecords ? scanned.walk_clock : null;
  const text = walk_high_water ?? (clock === null ? null : new Date(timestampMs(clock)).toISOString());
  if (text === null) return known;
  const seen = { cursor: text, cursor_key: walk_high_water === null ? null : walk_high_key };
  if (cursor === null || scanned.walk_mode === 'full') return seen;
  return toEpochMs(text, zone) > toEpochMs(cursor, zone) ? seen : known;
}
