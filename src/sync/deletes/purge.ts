import { setImmediate as nextTurn } from 'node:timers/promises';
import { timestampText } from '../../model/timestamp-text.ts';
import { forgetConfirmed } from '../../state/suspects.ts';
import type { ResourceContext } from '../resource-context.ts';

const DAY_MS = 86_400_000;
/** Rows per transaction: done in a few milliseconds, so that readers and other writers get their turn. */
const ROWS_PER_STEP = 200;

/**
 * Removes rows that were deleted longer ago than `deletes.keep_days`, with all their versions; null keeps them for
 * ever. Also forgets the suspects whose delete a person has decided before yesterday. Stops between two steps when
 * aborted.
 */
export async function purgeDeleted({ warehouse, owned, clock, deletes, signal }: ResourceContext): Promise<void> {
  const { resource } = owned;
  const yesterday = timestampText(clock.now() - DAY_MS);
  await warehouse.apply([forgetConfirmed(warehouse.own, resource, yesterday)], owned.lease());
  const table = owned.shape?.tables[0];
  if (deletes.keep_days === null || table === undefined) return;
  const deletedBefore = timestampText(clock.now() - deletes.keep_days * DAY_MS);
  for (let removed = ROWS_PER_STEP; removed === ROWS_PER_STEP;) {
    const step = { lease: owned.lease(), resource, table, deletedBefore, limit: ROWS_PER_STEP };
    removed = await owned.takeTurn(() => warehouse.purge(step));
    await nextTurn();
    signal.throwIfAborted();
  }
}
