import type { StoredRow } from '../database/warehouse.ts';
import type { Cell } from '../model/table.ts';
import { timestampMs } from '../model/timestamp-text.ts';
import { parseInstant } from '../rows/columns/timestamps.ts';
import type { Tombstone } from '../rows/columns/updated-time.ts';
import { canonicalHash } from '../rows/records/record-key.ts';
import { type KeyedRecord, latestOf } from './key-records.ts';

/** Whether states that are older than the stored row are accepted. */
export interface OlderPolicy {
  /** True if an older state of a record, by the service's clock, is accepted: it was read alone. */
  acceptsOlder: boolean;
  /** Older states that a whole walk has shown before (`canonicalHash` by key): shown once more they are accepted. */
  seenBefore?: ReadonlyMap<string, string>;
  /** When the walk began that the records are of; absent if they are of none. */
  walkStartedAt?: string;
}

export interface Difference {
  inserts: KeyedRecord[];
  /** Known, with another source than the stored one; their `version` is set. */
  updates: KeyedRecord[];
  /** Same source, or older than what is stored. */
  unchanged: number;
  /** Older than what is stored, which a listing that lags behind shows too: not accepted by itself. */
  older: KeyedRecord[];
  /** Tombstones of live rows. */
  stated: KeyedRecord[];
  /** Keys among the updates of rows that are deleted: they are back. */
  restored: string[];
  /** When the page was requested: the `_synced_at` of its rows. */
  stampedAt: string;
  /** Among the updates: those whose own clock went back. */
  wentBack: number;
  /**
   * Keys among the updates of rows that the same walk has written with an older state, of records that have not changed
   * since long before it: the listing shows states of one record, or another record has that key as well.
   */
  overwritten: string[];
  /** Fields that differ in nearly all records of the page, of which none has another time of change. */
  volatile?: string[];
  /** A time of change of a new record that the warehouse cuts to milliseconds; null for none. */
  cutTime?: string | null;
}

/**
 * Sorts records by what must be written. The later request wins. A record that is deleted here is back where it is
 * listed. What is older by the service's own clock is left alone if a lagging replica may have answered.
 */
export function difference(
  records: readonly KeyedRecord[],
  stored: ReadonlyMap<string, StoredRow>,
  requestedAt: string,
  policy: OlderPolicy,
  now: string,
  tombstones: ReadonlyMap<string, Tombstone> = new Map(),
): Difference {
  const stampedAt = stampFor(stored, requestedAt, now);
  const lists = { inserts: [], updates: [], older: [], stated: [], restored: [], overwritten: [] };
  const result: Difference = { ...lists, unchanged: 0, stampedAt, wentBack: 0 };
  for (const record of records) {
    const sort = tombstones.has(record.key) ? sortTombstone : sortIn;
    sort(result, record, stored.get(record.key), policy);
  }
  return result;
}

/** Of a record that never had a row, or is deleted already, nothing is written. */
function sortTombstone(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  result.unchanged += 1;
  if (row === undefined || row.deletedAt !== null || row.syncedAt > result.stampedAt) return;
  const isDoubtful = isOlder(record.updated, row.updated) && !isAccepted(record, policy);
  (isDoubtful ? result.older : result.stated).push(record);
}

function sortIn(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  if (row === undefined) {
    result.inserts.push(record);
    return;
  }
  const isDeleted = row.deletedAt !== null;
  const isSame = row.hash === record.hash;
  const isOld = !isSame && !isDeleted && isOlder(record.updated, row.updated);
  const isOvertaken = row.syncedAt > result.stampedAt;
  const isDoubtful = isOld && !isOvertaken && !isAccepted(record, policy);
  if (isDoubtful) result.older.push(record);
  if (isOvertaken || isDoubtful || (isSame && !isDeleted)) {
    result.unchanged += 1;
    return;
  }
  if (isOld) result.wentBack += 1;
  if (isDeleted) result.restored.push(record.key);
  record.version = row.version + 1;
  result.updates.push(record);
  if (!isDeleted && isOverwriting(record, row, policy)) result.overwritten.push(record.key);
}

/** Bounds the lag of a service and an error in its time zone. */
const MARGIN_MS = 86_400_000;

/** What differs without another time of change, such as a counter, says nothing. */
function isOverwriting({ updated }: KeyedRecord, row: StoredRow, { walkStartedAt }: OlderPolicy): boolean {
  if (walkStartedAt === undefined || row.syncedAt < walkStartedAt || updated === null) return false;
  const before = momentIn(row.updated);
  return before !== null && before < updated.at && latestOf(updated) < timestampMs(walkStartedAt) - MARGIN_MS;
}

/** Keys of deleted rows that these records bring back. */
export function restoredAmong({ restored }: Difference, written: readonly KeyedRecord[]): string[] {
  if (restored.length === 0) return [];
  const keys = new Set(written.map(({ key }) => key));
  return restored.filter((key) => keys.has(key));
}

function isAccepted(record: KeyedRecord, { acceptsOlder, seenBefore }: OlderPolicy): boolean {
  return acceptsOlder || seenBefore?.get(record.key) === canonicalHash(record.value);
}

/**
 * Rows with a time in the future were written before our clock was set back. A page that is requested now is later all
 * the same, and must not look older.
 */
function stampFor(stored: ReadonlyMap<string, StoredRow>, requestedAt: string, now: string): string {
  let stamp = requestedAt;
  for (const { syncedAt } of stored.values()) if (syncedAt > now && syncedAt > stamp) stamp = syncedAt;
  return stamp;
}

/** True if the service's own clock says that the record is from before the row with this time of change. */
export function isOlder(updated: KeyedRecord['updated'], stored: Cell): boolean {
  const before = momentIn(stored);
  return updated !== null && before !== null && latestOf(updated) < before;
}

function momentIn(stored: Cell): number | null {
  return typeof stored === 'string' || typeof stored === 'number' ? (parseInstant(stored)?.epochMs ?? null) : null;
}
