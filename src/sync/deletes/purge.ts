import { setImmediate as nextTurn } from 'node:timers/promises';
import { timestampText } from '../../model/timestamp-text.ts';
import { forgetSettled } from '../../state/suspects.ts';
import type { DeleteContext } from '../resource-context.ts';

const DAY_MS = 86_400_000;
/** Rows per transaction: done in a few milliseconds, so that readers and other writers get their turn. */
const ROWS_PER_STEP = 200;

/**
 * Removes rows that were deleted longer ago than they are to be kept, with all their versions; null keeps them for
 * ever. Also forgets on whose word deletes of before yesterday were made. Stops between two steps when aborted.
 */
export async function purgeDeleted(
  { warehouse, owned, clock }: Pick<DeleteContext, 'warehouse' | 'owned' | 'clock'>,
  keepDays: number | null,
  signal: AbortSignal,
): Promise<void> {
  const { resource } = owned;
  await warehouse.apply([forgetSettled(warehouse.own, resource, timestampText(clock.now() - DAY_MS))], owned.lease());
  const table = owned.shape?.tables[0];
  if (keepDays === null || table === undefined) return;
  const deletedBefore = timestampText(clock.now() - keepDays * DAY_MS);
  for (let removed = ROWS_PER_STEP; removed === ROWS_PER_STEP;) {
    const step = { lease: owned.lease(), resource, table, deletedBefore, limit: ROWS_PER_STEP };
    removed = await owned.takeTurn(() => warehouse.purge(step));
    await nextTurn();
    signal.throwIfAborted();
  }
}
