import type { Cell } from '../model/table.ts';
import type { WalkMode } from '../model/words.ts';
import { parseInstant } from '../shape/timestamps.ts';
import type { StoredRow } from '../warehouse/warehouse.ts';
import type { KeyedRecord } from './key-records.ts';

export interface Difference {
  inserts: KeyedRecord[];
  /** Known, with another source than the stored one; their `version` is set. */
  updates: KeyedRecord[];
  /** Same source, or older than what is stored. */
  unchanged: number;
  /** When the page was asked for, as its rows will say it. */
  stampedAt: string;
  /** Among the updates: those whose own clock went back, which only a full walk lets through. */
  wentBack: number;
}

/**
 * Sorts a page's records by what must be written. The later request wins; an incremental walk also leaves alone what
 * the service's own clock calls older, because a lagging replica may answer it.
 */
export function difference(
  records: readonly KeyedRecord[],
  stored: ReadonlyMap<string, StoredRow>,
  requestedAt: string,
  mode: WalkMode,
  now: string,
): Difference {
  const stampedAt = stampFor(stored, requestedAt, now);
  const result: Difference = { inserts: [], updates: [], unchanged: 0, stampedAt, wentBack: 0 };
  for (const record of records) {
    const row = stored.get(record.key);
    if (row === undefined) {
      result.inserts.push(record);
    } else if (row.hash === record.hash || row.syncedAt > stampedAt) {
      result.unchanged += 1;
    } else {
      const older = isOlder(record, row.updated);
      if (older && mode === 'incremental') {
        result.unchanged += 1;
      } else {
        if (older) result.wentBack += 1;
        record.version = row.version + 1;
        result.updates.push(record);
      }
    }
  }
  return result;
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
  return before !== null && record.updated.at < before.epochMs;
}
