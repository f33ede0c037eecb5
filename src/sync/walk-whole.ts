import type { SureRecord, WalkEnd } from '../extract/walk-end.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { zoneAt } from '../model/time-zone.ts';
import type { ResourceProfile } from '../source/profile.ts';
import type { CheckpointRow } from '../warehouse/own-tables.ts';
import { endWarnings, type Repetition } from './judge-end.ts';
import { startWalk, type WalkPlan } from './plan.ts';
import { sinceValue } from './since.ts';
import type { SyncedWalk } from './sync-resource.ts';
import type { Warning } from './warnings.ts';

export interface WholeWalkParts {
  profile: ResourceProfile;
  clock: Clock;
  walk: (plan: WalkPlan, repetition: Repetition) => Promise<SyncedWalk>;
}

/** What came of walking a resource until its records are known to be whole, or for as often as is worth it. */
export interface WholeWalk {
  checkpoint: CheckpointRow;
  /** True where every record was met, or the profile accepts that nothing shows it. */
  isProved: boolean;
  /** True where what was not met may be looked for. */
  maySweep: boolean;
  /** True where records that changed meanwhile may be missing, which the filter lists. */
  needsCatchUp: boolean;
  warnings: Warning[];
}

/** So often a walk that proved nothing is made again. */
const REPETITIONS = 2;
/** Records that share a moment with the last one that is sure are read again. */
const TIES_MS = 1_000;

/**
 * Walks a resource, and again where records moved between its pages meanwhile: from the last time that is sure where the
 * listing ascends by time and has a filter, else from the beginning. A position that the service no longer knows begins
 * the walk again, once. Throws as `syncResource` does.
 */
export async function walkWhole(parts: WholeWalkParts, planned: WalkPlan): Promise<WholeWalk> {
  let plan = planned;
  let repetition: Repetition = { former: null, behind: null };
  for (let repeated = 0; ; repeated++) {
    const walked = await oneWalk(parts, plan, repetition);
    const { checkpoint, end, judgement } = walked;
    const { isProved, maySweep, needsCatchUp, mayRepeat } = judgement;
    if (isProved || !mayRepeat || repeated === REPETITIONS) {
      return { checkpoint, isProved, maySweep, needsCatchUp, warnings: endWarnings(judgement, end) };
    }
    const next = repeated === 0 && planned.mode === 'full' ? behindSure(end, parts.profile) : null;
    const { walk_since, walk_credential } = planned.checkpoint;
    const [mode, since] = next === null ? [planned.mode, walk_since] : (['incremental', next.since] as const);
    const begun = { ...startWalk(checkpoint, mode, since, parts.clock.now()), walk_credential };
    plan = { ...planned, mode, checkpoint: begun, resumed: false };
    repetition = next === null ? { former: end, behind: null } : { former: null, behind: next.behind };
  }
}

async function oneWalk({ walk, clock }: WholeWalkParts, plan: WalkPlan, repetition: Repetition): Promise<SyncedWalk> {
  try {
    return await walk(plan, repetition);
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== 'cursor_expired') throw error;
    const checkpoint = startWalk(plan.checkpoint, plan.mode, plan.checkpoint.walk_since, clock.now());
    return walk({ ...plan, checkpoint }, repetition);
  }
}

/** The last record that is sure, and the filter's value for what lies behind it; null where there is none, or no filter. */
function behindSure(
  { sure }: WalkEnd,
  { incremental, times, updated }: ResourceProfile,
): { since: string; behind: SureRecord } | null {
  if (incremental === null || sure === null) return null;
  const overlapping = { ...incremental, overlap: TIES_MS };
  const since = sinceValue(sure.updated, overlapping, null, zoneAt(times, updated));
  return since === null ? null : { since, behind: sure };
}
