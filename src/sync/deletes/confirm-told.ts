import type { PageOutcome } from '../../load/page-loader.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { inParts } from '../../state/in-parts.ts';
import { readSuspects } from '../../state/suspects.ts';
import { loadRecord } from '../item/load-record.ts';
import type { ResourceContext } from '../resource-context.ts';
import { softDeleteWatched, watching } from './soft-delete-gone.ts';

/** Few, so that the listing's answer is not old by then. */
const ROWS_PER_STEP = 100;

/**
 * If records cannot be read alone: deletes those that a feed of deletes names, unless the listing shows them when it is
 * asked; what it shows is loaded. Returns how many were deleted.
 */
export async function confirmTold(
  context: ResourceContext,
  states: readonly ('open' | 'released')[],
  loaded: (outcome: PageOutcome) => void,
): Promise<number> {
  const { warehouse, owned } = context;
  if (!states.includes('open')) return 0;
  const open = await readSuspects(warehouse.own, owned.resource, ['open']);
  let deleted = 0;
  for (const step of inParts(
    open.filter(({ reason }) => reason === 'told'),
    ROWS_PER_STEP,
  )) {
    const gone = step.map(({ record_id: key, evidence_at, deleted_at: deletedAt }) => {
      return { key, confirmedAt: timestampMs(evidence_at), deletedAt };
    });
    const keys = gone.map(({ key }) => key);
    const evidence = { reason: 'told', witness: 'told', isReleased: false } as const;
    const outcome = await watching(owned, keys, async (watch) => {
      const found = await softDeleteWatched(context, gone, { ...evidence, watch });
      for (const listed of found.listed) {
        loaded(await loadRecord(context, listed.key, listed, { acceptsOlder: true }));
      }
      return found;
    });
    deleted += outcome.deleted.length;
  }
  return deleted;
}
