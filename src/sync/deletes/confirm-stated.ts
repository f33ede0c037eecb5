import { timestampMs } from '../../model/timestamp-text.ts';
import { holdSuspects } from '../../state/stated-suspects.ts';
import { readSuspects } from '../../state/suspects.ts';
import { inParts } from '../../state/in-parts.ts';
import type { SuspectRow } from '../../warehouse/own-tables.ts';
import type { ResourceContext } from '../resource-context.ts';
import { deleteVolume, tooMany } from './delete-limits.ts';
import { softDeleteWatched, watching } from './soft-delete-gone.ts';

/** Rows per transaction. */
const ROWS_PER_STEP = 500;

/** The records themselves were met and show it. */
const SHOWN = ['stated', 'left_out'] as const;
const NAMED: ReadonlySet<SuspectRow['reason']> = new Set([...SHOWN, 'told']);

/** True for a suspect of which the service has shown by the record itself that it is none of the resource's. */
export function isShown({ reason }: SuspectRow): boolean {
  return SHOWN.some((shown) => shown === reason);
}

/**
 * Carries out the deletes that the records themselves show, because they state it or because `filter` leaves them out
 * where they are listed: the service has said it, so nobody is asked again. If they and those that a feed names are too
 * many together, all of them are held. Returns how many rows were marked.
 */
export async function confirmStated(
  context: ResourceContext,
  states: readonly ('open' | 'released')[],
): Promise<number> {
  const { warehouse, owned } = context;
  const known = await readSuspects(warehouse.own, owned.resource, states);
  const named = known.filter(({ reason, state }) => state === 'open' && NAMED.has(reason));
  const isHeld = await holdIfTooMany(context, named);
  let deleted = 0;
  for (const reason of SHOWN) {
    const alike = known.filter((suspect) => suspect.reason === reason);
    const open = isHeld ? [] : alike.filter(({ state }) => state === 'open');
    const released = alike.filter(({ state }) => state === 'released');
    deleted += await carryOut(context, released, { reason, witness: 'stated', isReleased: true });
    deleted += await carryOut(context, open, { reason, witness: 'stated', isReleased: false });
  }
  return deleted;
}

async function holdIfTooMany(context: ResourceContext, open: readonly SuspectRow[]): Promise<boolean> {
  const { warehouse, owned, deletes } = context;
  const table = owned.shape?.tables[0];
  if (open.length === 0 || table === undefined) return false;
  const ids = open.map(({ record_id }) => record_id);
  let asked = 0;
  for (const part of inParts(ids, ROWS_PER_STEP)) {
    const rows = await warehouse.stored(table, part, []);
    for (const { deletedAt } of rows.values()) if (deletedAt === null) asked += 1;
  }
  const detail = tooMany(deletes, { asked, ...(await deleteVolume(context, table)) });
  if (detail === null) return false;
  await warehouse.apply(holdSuspects(warehouse.own, owned.resource, ids, detail), owned.lease());
  return true;
}

async function carryOut(
  context: ResourceContext,
  suspects: readonly SuspectRow[],
  evidence: { reason: (typeof SHOWN)[number]; witness: 'stated'; isReleased: boolean },
): Promise<number> {
  let deleted = 0;
  for (const step of inParts(suspects, ROWS_PER_STEP)) {
    const gone = step.map(({ record_id: key, evidence_at, deleted_at: deletedAt }) => {
      return { key, confirmedAt: timestampMs(evidence_at), deletedAt };
    });
    const keys = gone.map(({ key }) => key);
    const outcome = await watching(context.owned, keys, (watch) =>
      softDeleteWatched(context, gone, { ...evidence, watch }),
    );
    deleted += outcome.deleted.length;
  }
  return deleted;
}
