import type { LoadContext } from '../../load/load-context.ts';
import { zoneAt } from '../../model/time-zone.ts';
import { NO_WALK } from '../../state/checkpoints.ts';
import { planWalk, type PlanInput, type WalkPlan } from '../plan.ts';
import { momentOf } from '../cursor/since.ts';
import type { Warning } from '../warnings.ts';
import { nothingToTry, untimedRecords } from './warnings.ts';
import { countUntimedRows, cursorFor, latestWitnesses } from './witness.ts';

/**
 * Returns the plan if it may rely on the service's filter, else that of a full walk, and why. An incremental walk needs
 * a record that proves the filter; if the checkpoint names none it is the row that changed last, and the walk asks from
 * its time on.
 */
export async function trustedPlan(
  context: LoadContext,
  input: PlanInput,
  plan: WalkPlan,
): Promise<{ plan: WalkPlan; warnings: Warning[] }> {
  const { profile, resource, stored } = input;
  if (plan.mode === 'full' || profile.incremental === null || stored === null) return { plan, warnings: [] };
  const isAccepted = profile.accept.includes('filter');
  const doubt = { resource, param: profile.incremental.param, isAccepted };
  const untimed = await countUntimedRows(context);
  const warnings = untimed === 0 ? [] : [untimedRecords(doubt, untimed)];
  if (untimed > 0 && !isAccepted) return { plan: fullPlan(input), warnings };
  if (plan.resumed || stored.cursor_key !== null || stored.cursor === null) return { plan, warnings };

  const { cursor } = stored;
  const zone = zoneAt(profile.times, profile.updated);
  const [witness] = await latestWitnesses(context, { until: momentOf(cursor, zone), except: null });
  if (witness !== undefined) {
    const from = { cursor: cursorFor(witness, cursor, profile), cursor_key: witness.key };
    return { plan: planWalk({ ...input, stored: { ...stored, ...from, cursor_seen_at: null } }), warnings };
  }
  // Where there are no rows at all, a full walk costs no more, and needs no trust.
  const rowsThere = (await context.warehouse.count(resource)) > 0;
  if (rowsThere && untimed === 0) warnings.push(nothingToTry(doubt));
  return isAccepted ? { plan, warnings } : { plan: fullPlan(input), warnings };
}

/** A full walk from the beginning, in place of an incremental one that is not believed. */
export function fullPlan(input: Omit<PlanInput, 'command' | 'interrupted' | 'restart'>): WalkPlan {
  const stored = input.stored === null ? null : { ...input.stored, ...NO_WALK };
  return planWalk({ ...input, stored, command: 'backfill', interrupted: null, restart: false });
}
