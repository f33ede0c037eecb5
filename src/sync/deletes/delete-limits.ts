import type { LoadContext } from '../../load/load-context.ts';
import type { TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { countSuspects } from '../../database/state/suspects.ts';

const DAY_MS = 86_400_000;

/** More deletes than this within a sweep, or within 24 hours, are held until a person decides. */
export interface DeleteLimits {
  max_rows: number;
  /** Part of the live rows, 0..1. */
  max_part: number;
}

/** How many deletes are asked for, and the rows that they are measured against. */
interface DeleteVolume {
  /** Rows that would be deleted now. */
  asked: number;
  /** Rows that are live now. */
  live: number;
  /** Rows deleted in the last 24 hours without a person's decision. */
  recent: number;
}

/**
 * Returns why so many deletes are too many, as a sentence; null if they may go on. They are too many if they and those
 * of the last 24 hours are more than either limit of the rows that were live before.
 */
export function tooMany(limits: DeleteLimits, { asked, live, recent }: DeleteVolume): string | null {
  const before = live + recent;
  // In a product such as 0.07 * 100 the last digit is off.
  const part = Math.floor(limits.max_part * before + 1e-9);
  const allowed = Math.min(limits.max_rows, part);
  if (asked + recent <= allowed) return null;
  const already = recent === 0 ? '' : `, after ${recent} in the last 24 h`;
  const limit = allowed === part ? `max_part ${limits.max_part}` : `max_rows ${limits.max_rows}`;
  return `${asked} of ${live} live rows would be deleted${already}: more than ${allowed} (deletes.${limit})`;
}

/** The live and the recently deleted rows of a table. */
export async function deleteVolume(
  { warehouse, owned, clock }: LoadContext,
  table: TableShape,
): Promise<Omit<DeleteVolume, 'asked'>> {
  const since = timestampText(clock.now() - DAY_MS);
  const deleted = await warehouse.rows.countDeleted(table.name, since);
  const confirmed = await countSuspects(warehouse.own, owned.resource, 'settled', since);
  return { live: await warehouse.rows.count(table.name), recent: Math.max(0, deleted - confirmed) };
}
