// Computes the checkpoint after a page: the next position, or the new cursor after the last page.
import { toEpochMs } from '../checks/since.ts';
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
  /** Pages of the service that are in it; 1 if absent. */
  pages?: number;
  records: number;
  /** Those of them that an earlier page of the scan has counted; absent or 0 if none was. */
  repeatedRecords?: number;
  /** The service's clock at this page; null if it is not known. */
  serverDate: number | null;
  /** How many records the service says there are in all. */
  total?: number | null;
  /** Records on the largest page so far that named a next one; absent or 0 if none did. */
  fullPageSize?: number;
  /** Of the last page: false if the scan may not have seen every record. */
  isComplete?: boolean;
  updated: readonly DatedKey[];
  /** Of local times in `updated`; absent or null if they are UTC. */
  zone?: TimeZone | null;
}

/**
 * The checkpoint after a page: the next position, or, after the last page, a finished scan with its cursor moved.
 * Pure, so that the checkpoint can be committed together with the page's rows.
 */
export function checkpointAfter(checkpoint: CheckpointRow, page: LoadedPage, now: number): CheckpointRow {
  const scanned = advanceScan(checkpoint, page, now);
  if (!page.isLast) return scanned;
  return page.isComplete === false ? endIncompleteScan(scanned, now) : finishScan(scanned, page, now);
}

function advanceScan(checkpoint: CheckpointRow, page: LoadedPage, now: number): CheckpointRow {
  const clock = checkpoint.walk_clock ?? clockAtStart(page, now);
  const { total = null } = page;
  const { walk_total: known } = checkpoint;
  return {
    ...checkpoint,
    walk_position: page.next,
    walk_clock: clock,
    ...newestTime(checkpoint, page, clock),
    walk_pages: checkpoint.walk_pages + (page.pages ?? 1),
    walk_records: checkpoint.walk_records + page.records - (page.repeatedRecords ?? 0),
    walk_total: total === null || known === null ? (total ?? known) : Math.min(total, known),
    kept_size: page.fullPageSize ? page.fullPageSize : checkpoint.kept_size,
  };
}

/** A scan that may have missed records moves no cursor, and is not the last full one; the schedule needs its time. */
function endIncompleteScan(scanned: CheckpointRow, now: number): CheckpointRow {
  const at = timestampText(now);
  const fullAt = scanned.walk_mode === 'full' ? at : scanned.unproved_full_at;
  const walk_credential = otherCredential(scanned, scanned.walk_mode === 'full');
  return { ...scanned, ...NO_SCAN, walk_credential, due_at: null, unproved_at: at, unproved_full_at: fullAt };
}

/** A service's clock may be this far ahead of this machine's; a record that is dated later proves nothing about it. */
const MAX_AHEAD_MS = 86_400_000;

/**
 * The service's clock when the scan began. If no answer has a `Date`, the newest record of the first
 * page is a lower bound of it, unless it is dated in the future. Never the local clock: it may be wrong by hours.
 */
function clockAtStart(page: LoadedPage, now: number): string | null {
  if (page.serverDate !== null) return timestampText(page.serverDate);
  const plausible = page.updated.filter(({ at }) => at <= now + MAX_AHEAD_MS);
  const newest = plausible.reduce((most, { at }) => Math.max(most, at), -Infinity);
  return Number.isFinite(newest) ? timestampText(newest) : null;
}

/**
 * The newest time seen, as the service wrote it. Times after the scan's beginning do not count: the record may have
 * been changed after its page was read, or be dated in the year 9999.
 */
function newestTime(
  { walk_high_water, walk_high_key }: CheckpointRow,
  page: LoadedPage,
  clock: string | null,
): Pick<CheckpointRow, 'walk_high_water' | 'walk_high_key'> {
  const limit = clock === null ? Infinity : timestampMs(clock);
  let best = { walk_high_water, walk_high_key };
  let bestAt = walk_high_water === null ? -Infinity : toEpochMs(walk_high_water, page.zone);
  for (const { key, text, at } of page.updated) {
    if (at > bestAt && at <= limit) {
      best = { walk_high_water: text, walk_high_key: key };
      bestAt = at;
    }
  }
  return best;
}

function finishScan(scanned: CheckpointRow, page: LoadedPage, now: number): CheckpointRow {
  const at = timestampText(now);
  const isFull = scanned.walk_mode === 'full';
  const other = otherCredential(scanned, isFull);
  return {
    ...scanned,
    ...NO_SCAN,
    ...nextCursor(scanned, page.zone),
    cursor_seen_at: cursorSeenAt(scanned, page),
    checked_at: scanned.walk_clock,
    last_success_at: at,
    last_full_at: isFull ? at : scanned.last_full_at,
    unproved_at: null,
    unproved_full_at: isFull ? null : scanned.unproved_full_at,
    walk_credential: other,
    full_credential: isFull && other === null ? scanned.walk_credential : scanned.full_credential,
    due_at: null,
  };
}

/** In `walk_credential`, in place of a credential: the scan was made under several. */
export const SEVERAL_CREDENTIALS = 'several';

/** True if a scan is, or was, made under another credential than the last complete full scan. */
export function isOtherCredential({ walk_credential, full_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== full_credential;
}

/**
 * The credential of a full scan if it is another one than before, else null. It may see less, so it does not become
 * `full_credential` here, but once `detectDeletes` has compared what the two list.
 */
function otherCredential(scanned: CheckpointRow, isFull: boolean): string | null {
  return isFull && isOtherCredential(scanned) ? scanned.walk_credential : null;
}

/**
 * The clock of the last page, by which everything that the scan has seen existed. A scan that requested the look-back again
 * and moved nothing sets it to null: only once `filter/verify-filter.ts` has verified that the filter lists the cursor's
 * record may the look-back be left out.
 */
function cursorSeenAt(scanned: CheckpointRow, { serverDate, zone }: LoadedPage): string | null {
  const hasMoved = nextCursor(scanned, zone).cursor !== scanned.cursor;
  if (hasMoved || scanned.walk_mode === 'full') return serverDate === null ? null : timestampText(serverDate);
  return isBehindCursor(scanned, zone) ? scanned.cursor_seen_at : null;
}

/** True for a scan that requests only what is after the cursor: the record that set it is not listed. */
export function isBehindCursor({ walk_since, cursor }: CheckpointRow, zone: LoadedPage['zone']): boolean {
  return walk_since !== null && cursor !== null && toEpochMs(walk_since, zone) > toEpochMs(cursor, zone);
}

type Cursor = Pick<CheckpointRow, 'cursor' | 'cursor_key'>;

/**
 * The cursor after a scan. If no record had a time of its own, the service still filters by times that it does not show:
 * then its clock is the cursor, unless a later scan listed nothing.
 */
function nextCursor(scanned: CheckpointRow, zone: LoadedPage['zone']): Cursor {
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
