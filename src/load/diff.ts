import type { Cell } from '../model/table.ts';
import { parseInstant } from '../shape/timestamps.ts';
import type { StoredRow } from '../warehouse/warehouse.ts';
import { latestOf, type KeyedRecord } from './key-records.ts';

/** How the records were read, which says how far to believe them. */
export interface Reading {
  /** True where an older state of a record, by the service's clock, is believed: it was looked up, or all is walked. */
  believesOlder: boolean;
  /** True where a record that is deleted here is believed to be back, however it looks. */
  believesReturn: boolean;
}

export interface Difference {
  inserts: KeyedRecord[];
  /** Known, with another source than the stored one; their `version` is set. */
  updates: KeyedRecord[];
  /** Same source, or older than what is stored. */
  unchanged: number;
  /** Deleted here and listed, which a listing that lags behind does too: to be read alone first. */
  doubtful: KeyedRecord[];
  /** When the page was asked for, as its rows will say it. */
  stampedAt: string;
  /** Among the updates: those whose own clock went back, which only a full walk lets through. */
  wentBack: number;
}

/**
 * Sorts records by what must be written. The later request wins; some readings also leave alone what the service's own
 * clock calls older, because a lagging replica may have answered.
 */
export function difference(
  records: readonly KeyedRecord[],
  stored: ReadonlyMap<string, StoredRow>,
  requestedAt: string,
  reading: Reading,
  now: string,
): Difference {
  const stampedAt = stampFor(stored, requestedAt, now);
  const result: Difference = { inserts: [], updates: [], unchanged: 0, doubtful: [], stampedAt, wentBack: 0 };
  for (const record of records) sortIn(result, record, stored.get(record.key), reading);
  return result;
}

function sortIn(result: Difference, record: KeyedRecord, row: StoredRow | undefined, reading: Reading): void {
  if (row === undefined) {
    result.inserts.push(record);
    return;
  }
  const isDeleted = row.deletedAt !== null;
  const isSame = row.hash === record.hash;
  const older = !isSame && isOlder(record, row.updated);
  const isDoubtful = isDeleted && !reading.believesReturn;
  if (row.syncedAt > result.stampedAt || isDoubtful || (isSame && !isDeleted) || (older && !reading.believesOlder)) {
    result.unchanged += 1;
    if (isDoubtful && row.syncedAt <= result.stampedAt) result.doubtful.push(record);
    return;
  }
  if (older) result.wentBack += 1;
  record.version = row.version + 1;
  result.updates.push(record);
}

/**
 * Rows with a time that is still to come were written before our clock was put back. What is asked for now is later all
 * the same, and must not look older to those who compare.
 */
function stampFor(stored: ReadonlyMap<string, StoredRow>, requestedAt: string, now: string): string {
  let stamp = requestedAt;
  for (const { syncedAt } of stored.values()) if (syncedAt > now && syncedAt > stamp) stamp = syncedAt;
  return stamp;
}

function isOlder(record: KeyedRecord, stored: Cell): boolean {
  if (record.updated === null || (typeof stored !== 'string' && typeof stored !== 'number')) return false;
  const before = parseInstant(stored);
  return before !== null && latestOf(record.updated) < before.epochMs;
}
