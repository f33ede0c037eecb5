import type { SureRecord } from '../../extract/guards/walk-end.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { zoneAt } from '../../model/time-zone.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { endWarnings, type Repetition } from './prove-end.ts';
import { startWalk, type WalkPlan } from '../plan.ts';
import { sinceValue } from '../cursor/since.ts';
import type { SyncedWalk } from './load-pages.ts';
import type { Warning } from '../warnings.ts';

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
  /** True where the listing showed no record at all. */
  isEmpty: boolean;
  /** True where records that changed meanwhile may be missing, which the filter lists. */
  needsCatchUp: boolean;
  warnings: Warning[];
}

/** So often a walk that proved nothing is made again from the beginning, and in all. */
const REPETITIONS = { whole: 2, all: 4 };
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
  const repeated = { whole: 0, all: 0 };
  for (;;) {
    const { checkpoint, end, judgement } = await oneWalk(parts, plan, repetition);
    const { isProved, maySweep, needsCatchUp, mayRepeat } = judgement;
    const next = nextPass(parts.profile, planned, { end, judgement, repetition });
    repeated.all += 1;
    repeated.whole += next.since === planned.checkpoint.walk_since ? 1 : 0;
    const isEnough = repeated.all > REPETITIONS.all || repeated.whole > REPETITIONS.whole;
    if (isProved || !mayRepeat || isEnough) {
      const isEmpty = end.records === 0;
      return { checkpoint, isProved, maySweep, isEmpty, needsCatchUp, warnings: endWarnings(judgement, end) };
    }
    const { walk_credential } = planned.checkpoint;
    const again = sweepable({ ...checkpoint, walk_credential });
    const begun = { ...startWalk(again, next.mode, next.since, parts.clock.now()), walk_credential };
    plan = { ...planned, mode: next.mode, checkpoint: begun, resumed: false };
    repetition = next.repetition;
  }
}

/** Of a resource that has rows though no full walk was whole: what the next one does not meet was met before. */
export function sweepable(checkpoint: CheckpointRow): CheckpointRow {
  return { ...checkpoint, full_credential: checkpoint.full_credential ?? checkpoint.walk_credential };
}

interface NextPass {
  mode: WalkPlan['mode'];
  since: string | null;
  repetition: Repetition;
}

/** What is walked after a walk that proved nothing. */
function nextPass(
  profile: ResourceProfile,
  { mode, checkpoint }: WalkPlan,
  { end, judgement, repetition }: Pick<SyncedWalk, 'end' | 'judgement'> & { repetition: Repetition },
): NextPass {
  const isUnwatched = judgement.doubts.every(({ code }) => code === 'unwatched');
  const { behind } = repetition;
  // Where rows are known already, what is gone has to be found as well, and only a whole walk does that.
  const mayGoOn = behind === null && mode === 'full' && checkpoint.full_credential === null;
  const sure = mayGoOn ? end.sure : isUnwatched ? behind : null;
  const since = sure === null ? null : sinceOf(sure, profile);
  if (sure === null || since === null)
    return { mode, since: checkpoint.walk_since, repetition: { former: end, behind: null } };
  return { mode: 'incremental', since, repetition: { former: behind === null ? null : end, behind: sure } };
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

/** The filter's value for what lies behind a record; null where there is no filter. */
function sinceOf({ updated: text }: SureRecord, { incremental, times, updated }: ResourceProfile): string | null {
  if (incremental === null) return null;
  return sinceValue(text, { ...incremental, overlap: TIES_MS }, null, zoneAt(times, updated));
}
