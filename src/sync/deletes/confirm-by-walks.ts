import { timestampMs } from '../../model/timestamp-text.ts';
import type { PageProfile } from '../../source/page-style.ts';
import { readSuspects } from '../../state/suspects.ts';
import type { SuspectRow } from '../../warehouse/own-tables.ts';
import { softDeleteWatched, watching } from './soft-delete-gone.ts';
import type { DeleteContext } from '../resource-context.ts';

/** Rows per transaction. */
const ROWS_PER_STEP = 500;

/** Page styles in which a record may slip from a page that is still to come to one that was read. */
const DRIFTING: ReadonlySet<PageProfile['style']> = new Set(['page', 'offset']);

/**
 * Where records cannot be read alone: deletes those that as many whole walks in a row have not met as it takes, and
 * those that a person has released. Returns how many.
 */
export async function settleByWalks(context: DeleteContext, states: readonly ('open' | 'released')[]): Promise<number> {
  const { warehouse, owned, profile } = context;
  const suspects = await readSuspects(warehouse.own, owned.resource, states);
  const gone = suspects.filter((suspect) => isGone(suspect, profile.page.style));
  let deleted = 0;
  for (const isReleased of [true, false]) {
    const alike = gone.filter(({ state }) => (state === 'released') === isReleased).map(byEvidence);
    for (let at = 0; at < alike.length; at += ROWS_PER_STEP) {
      const step = alike.slice(at, at + ROWS_PER_STEP);
      const keys = step.map(({ key }) => key);
      const outcome = await watching(owned, keys, (watch) =>
        softDeleteWatched(context, step, { reason: 'missing', witness: 'walked', isReleased, watch }),
      );
      deleted += outcome.deleted.length;
    }
  }
  return deleted;
}

/** An event and one walk that fits it say as much as two walks. */
function isGone({ state, reason, sweeps }: SuspectRow, style: PageProfile['style']): boolean {
  const needed = reason === 'missing' && DRIFTING.has(style) ? 2 : 1;
  return reason !== 'older' && (state === 'released' || sweeps >= needed);
}

/** No request has shown it: what was written since the walk began, or since the event, stays. */
function byEvidence({ record_id, evidence_at }: SuspectRow): { key: string; confirmedAt: number } {
  return { key: record_id, confirmedAt: timestampMs(evidence_at) };
}
