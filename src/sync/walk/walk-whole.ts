import { longerOf } from '../../extract/guards/page-ages.ts';
import type { EndProof, SureRecord } from '../../extract/guards/walk-end.ts';
import { AGE_STEP_MS } from '../../model/answer-age.ts';
import { SyncError } from '../../model/errors.ts';
import { isNumberingFault } from '../../extract/guards/prove-numbering.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { NO_WALK, readCheckpoint, saveCheckpoint } from '../../state/checkpoints.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { sinceValue } from '../../checks/since.ts';
import { finishJoined } from '../ranges/join-walk.ts';
import { walkInRanges } from '../ranges/walk-in-ranges.ts';
import { newEvidence, type FilterEvidence } from './filter-evidence.ts';
import { startWalk, type WalkPlan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { forgetCursor } from '../filter/trusted-plan.ts';
import { windowsOf } from './windows.ts';
import { loadPages, type LoadedWalk, type OneWalk } from './load-pages.ts';
import { endWarnings, type Repetition, type WalkProof } from '../prove-walk.ts';

/** The result of walking a resource until its records are known to be whole, or for as often as is worth it. */
export interface WholeWalk extends Pick<WalkProof, 'isProved' | 'maySweep' | 'needsCatchUp'> {
  checkpoint: CheckpointRow;
  /** True if the listing showed no record at all. */
  isEmpty: boolean;
  /** How it ended; null if nothing showed the end. */
  endProof: EndProof | null;
  /** Evidence about the filter from all its pages. */
  evidence: FilterEvidence;
}

/** So often a walk that proved nothing is made again from the beginning, and in all. */
const REPETITIONS = { whole: 2, all: 4 };
/** So long a walk waits for a cache before it is made again. */
const MOST_CACHED_MS = 600_000;
/** Records that share a moment with the last one that is sure are read again. */
const TIES_MS = 1_000;

/**
 * Walks a resource, and again if records moved between its pages meanwhile: from the last time that is sure if the
 * listing ascends by time and has a filter, else from the beginning. A position that the service no longer knows begins
 * the walk again, once. `hasFilter` is false if the walk must not be made whole by the filter. Adds its warnings to the
 * run's. Throws as `loadPages` does.
 */
export async function walkWhole(run: RunContext, asked: WalkPlan, hasFilter = true): Promise<WholeWalk> {
  const context = hasFilter ? run : { ...run, profile: { ...run.profile, incremental: null } };
  const { profile, clock, progress } = context;
  const collected = { evidence: newEvidence(asked.checkpoint, profile), numbering: { isProved: false } };
  const { evidence } = collected;
  const planned = await withRows(context, asked);
  let plan = planned;
  let repetition: Repetition = { former: null, behind: null };
  let formerEndedAt: number | null = null;
  let settleMs: number | null = 0;
  const repeated = { whole: 0, all: 0 };
  for (;;) {
    // Also a filter that is not trusted is all that such a service can be asked by: the windows try it themselves.
    const windows = await windowsOf(run, plan.checkpoint);
    const isFirst = repeated.all === 0;
    const { checkpoint, end, proof } =
      (isFirst ? await inRanges(context, plan) : null) ??
      (await oneWalk(context, { plan, repetition, formerEndedAt, windows, ...collected }));
    const { isProved, maySweep, needsCatchUp, mayRepeat } = proof;
    const next = nextPass(profile, planned, { end, proof, repetition });
    repeated.all += 1;
    // A walk that was given kept pages has only shown that there is a cache.
    repeated.whole += next.since === planned.checkpoint.walk_since && !proof.isKept ? 1 : 0;
    const isEnough = repeated.all > REPETITIONS.all || repeated.whole > REPETITIONS.whole;
    settleMs = longerOf(settleMs, end.settleMs);
    const waitMs = profile.accept.includes('cache') ? 0 : waitFor(settleMs, proof.isKept);
    if (isProved || !mayRepeat || isEnough || waitMs === null) {
      progress.warnings.push(...endWarnings(proof, end));
      const { disorder } = evidence;
      const isUnsorted = isProved && plan.mode === 'full' && disorder !== null;
      const kept = isUnsorted ? await forgetCursor(context, { checkpoint, disorder, needsCatchUp }) : checkpoint;
      return {
        checkpoint: kept,
        isProved,
        maySweep,
        isEmpty: end.records === 0,
        endProof: end.proof,
        needsCatchUp,
        evidence,
      };
    }
    formerEndedAt = clock.now();
    await clock.sleep(waitMs, context.signal);
    const { walk_credential } = planned.checkpoint;
    const again = sweepable({ ...checkpoint, walk_credential });
    const begun = { ...startWalk(again, next.mode, next.since, clock.now()), walk_credential };
    plan = { ...planned, mode: next.mode, checkpoint: begun, resumed: false };
    repetition = next.repetition;
  }
}

/** How long to wait before a walk is made again; null if a cache in front would give it the same pages. */
function waitFor(settleMs: number | null, isKept: boolean): number | null {
  if (settleMs !== null && settleMs <= MOST_CACHED_MS) return settleMs;
  return isKept ? null : AGE_STEP_MS;
}

/** An earlier walk without a proved end may have left rows, of which some may be gone by now. */
async function withRows({ warehouse }: RunContext, plan: WalkPlan): Promise<WalkPlan> {
  const { checkpoint, mode, resumed } = plan;
  if (mode !== 'full' || resumed || checkpoint.full_credential !== null) return plan;
  return (await warehouse.count(checkpoint.resource)) === 0 ? plan : { ...plan, checkpoint: sweepable(checkpoint) };
}

/** For a resource that has rows though no full walk was whole: what the next one does not meet was met before. */
function sweepable(checkpoint: CheckpointRow): CheckpointRow {
  return { ...checkpoint, full_credential: checkpoint.full_credential ?? checkpoint.walk_credential };
}

interface NextPass {
  mode: WalkPlan['mode'];
  since: string | null;
  repetition: Repetition;
}

/** Returns how to walk again after a walk that proved nothing. */
function nextPass(
  profile: ResourceProfile,
  { mode, checkpoint }: WalkPlan,
  { end, proof, repetition }: Pick<LoadedWalk, 'end' | 'proof'> & { repetition: Repetition },
): NextPass {
  const isUnwatched = proof.doubts.every(({ code }) => code === 'unwatched');
  const { behind } = repetition;
  // If rows are known already, deletes have to be found as well, and only a whole walk does that.
  const mayGoOn = behind === null && mode === 'full' && checkpoint.full_credential === null;
  const sure = mayGoOn ? end.sure : isUnwatched ? behind : null;
  const since = sure === null ? null : sinceOf(sure, profile);
  if (sure === null || since === null)
    return { mode, since: checkpoint.walk_since, repetition: { former: end, behind: null } };
  return { mode: 'incremental', since, repetition: { former: behind === null ? null : end, behind: sure } };
}

/** Null if it is to be walked in one. */
async function inRanges(context: RunContext, { checkpoint: planned }: WalkPlan): Promise<LoadedWalk | null> {
  const joined = await walkInRanges(context, planned);
  if (joined === null) return null;
  const { end, proof } = joined;
  return { checkpoint: await finishJoined(context, planned, joined), end, proof };
}

async function oneWalk(context: RunContext, one: OneWalk): Promise<LoadedWalk> {
  try {
    return await loadPages(context, one);
  } catch (error) {
    // One that went on from here would have met too few records to be told the same.
    if (isNumberingFault(error)) await forgetWalk(context);
    if (!(error instanceof SyncError) || error.code !== 'cursor_expired') throw error;
    const { plan } = one;
    const checkpoint = startWalk(plan.checkpoint, plan.mode, plan.checkpoint.walk_since, context.clock.now());
    return loadPages(context, { ...one, plan: { ...plan, checkpoint } });
  }
}

async function forgetWalk({ warehouse, owned }: RunContext): Promise<void> {
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null) return;
  await warehouse.apply([saveCheckpoint(warehouse.own, { ...stored, ...NO_WALK })], owned.lease());
}

/** The filter's value for what lies behind a record; null if there is no filter. */
function sinceOf({ updated: text }: SureRecord, profile: ResourceProfile): string | null {
  if (profile.incremental === null) return null;
  return sinceValue(text, { ...profile.incremental, overlap: TIES_MS }, null, updatedZone(profile));
}
