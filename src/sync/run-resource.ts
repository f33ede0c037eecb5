import type { CompiledQuery } from 'kysely';
import type { Page } from '../extract/page.ts';
import type { RequestMeter } from '../http/client.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { NO_WALK, readCheckpoint, saveCheckpoint } from '../state/checkpoints.ts';
import { forgetSeen } from '../state/seen.ts';
import { endRun, saveFigures } from '../state/runs.ts';
import type { CheckpointRow } from '../warehouse/own-tables.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { deleteContext } from './resource-context.ts';
import { emptyListing, newCredential, unsettled } from './deletes/warnings.ts';
import { newMet, noting, type Met } from './filter/evidence.ts';
import { proveFilter, untimedCatchUp, type FilterProof, type Walked } from './filter/prove-filter.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import type { Repetition } from './walk/prove-end.ts';
import { openPageLoader, type PageOutcome } from '../load/page-loader.ts';
import { planWalk, type WalkPlan } from './plan.ts';
import { purgeDeleted } from './deletes/purge.ts';
import { prepareAgain, type Prepared } from './run/prepare-resource.ts';
import type { ResourceReport } from './report.ts';
import { runEnd } from './run-end.ts';
import { SetBack } from './set-back.ts';
import type { ResourceJob } from './resource-job.ts';
import type { RunOptions } from './run-options.ts';
import { settleDeletes } from './deletes/confirm-deletes.ts';
import { sweep, type NewCredential } from './deletes/sweep.ts';
import { syncResource, type SyncedWalk } from './walk/load-pages.ts';
import { countPage, countRecords, newTally, withPage, type Tally } from './run/progress.ts';
import { sweepable, walkWhole } from './walk/walk-whole.ts';
import { openWalkNotes, readingOf } from './deletes/page-suspects.ts';

/** So often the database may be set back within a run before the run gives up. */
const MOST_SET_BACKS = 5;

/**
 * One resource's part of a run. Whatever stops its walk becomes its report; only a broken warehouse throws. Where the
 * database is set back meanwhile, the part goes on from what stands there then, as after an interruption.
 */
export async function runResource(options: RunOptions, prepared: Prepared): Promise<ResourceReport> {
  const startedAt = options.clock.monotonic();
  const tally = newTally(prepared.run.mode, prepared.warnings);
  let part = prepared;
  for (let left = MOST_SET_BACKS; ; left -= 1) {
    try {
      return await attempt(options, part, tally, startedAt);
    } catch (error) {
      if (left === 0 || !(error instanceof SetBack || (await part.owned.recover(error)))) throw error;
    }
    part = await prepareAgain(options, part, tally);
  }
}

async function attempt(options: RunOptions, part: Prepared, tally: Tally, startedAt: number): Promise<ResourceReport> {
  const { warehouse, clock, watcher } = options;
  const { owned, resource, run, plan, stopped } = part;
  const stop = await (plan === null || stopped !== null ? notBegun(options, part) : walked(options, part, plan, tally));
  let end = await runEnd(options, part, tally, stop);
  const ended = () => endRun(warehouse.own, { ...run, mode: tally.mode }, end, clock.now());
  // Only what is all still there may be called whole.
  const error = stop ?? (await refusal(() => warehouse.apply([ended()], owned.lease())));
  if (error !== null) {
    if (await owned.recover(error)) throw new SetBack(error);
    if (stop === null) end = await runEnd(options, part, tally, error);
    await warehouse.apply([ended()]);
  }
  const { figures, notes, mode } = tally;
  const seconds = Math.round(clock.monotonic() - startedAt) / 1_000;
  const { status, warnings } = end;
  const rest = { ...(end.error === null ? {} : { error: end.error }), ...(warnings.length === 0 ? {} : { warnings }) };
  const report = { resource, mode, status, ...figures, seconds, ...rest };
  watcher.ended(report, notes, error);
  return report;
}

/** What stopped a walk before its first request; what it means for the next run is stored. */
async function notBegun({ warehouse }: RunOptions, { plan, owned, stopped }: Prepared): Promise<unknown> {
  if (plan !== null) await learnFrom(stopped, warehouse, plan, owned);
  return stopped;
}

/** Why the lease does not allow something; null where it does. Throws anything else. */
async function refusal(work: () => Promise<void>): Promise<SyncError | null> {
  try {
    await work();
    return null;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'lease_lost') return error;
    throw error;
  }
}

/** Walks a resource to its end; the error that stopped it, or null. Counted into `tally` meanwhile. */
async function walked(options: RunOptions, prepared: Prepared, plan: WalkPlan, tally: Tally): Promise<unknown> {
  const { warehouse, clock, watcher } = options;
  const { resource, owned } = prepared;
  const { meter } = tally;
  const passed = (page: Page, outcome: PageOutcome): void => {
    countPage(tally, outcome, meter);
    watcher.page(resource, page, tally.figures);
  };
  const figures = (outcome: PageOutcome): CompiledQuery =>
    saveFigures(warehouse.own, prepared.run, withPage(tally.figures, outcome, meter));
  const walk = async (from: WalkPlan, hasFilter = true): Promise<Walked> => {
    const met = newMet(from.checkpoint, prepared.profile);
    const profile = hasFilter ? prepared.profile : { ...prepared.profile, incremental: null };
    const once = (start: WalkPlan, repetition: Repetition): Promise<SyncedWalk> =>
      walkOnce(options, { ...prepared, profile }, start, { meter, figures, passed, repetition, met });
    const whole = await walkWhole({ profile, clock, walk: once }, await withRows(options, from));
    tally.warnings.push(...whole.warnings);
    return { ...whole, met };
  };
  const deletes = deletesOf(options, prepared, tally, meter);
  const parts = { options, ...prepared, meter, walk };
  const proved = async (filtered: WalkPlan, by: Walked, isLast: boolean): Promise<FilterProof['full']> => {
    const proof = await proveFilter(parts, filtered, by, isLast);
    tally.warnings.push(...proof.warnings);
    return proof.full;
  };
  try {
    watcher.started(resource, plan);
    // What a run left undone that was killed when its walk had just ended.
    const known = await deletes.sweep();
    const start = known === null ? plan : knownUnder(plan, known);
    const first = await walk(start, start.mode === 'incremental' || prepared.warnings.length === 0);
    const full = start.mode === 'full' ? { plan: start, walked: first } : await proved(start, first, false);
    if (full !== null) {
      tally.mode = 'full';
      if (full.walked.maySweep) await deletes.sweepAfter(full.walked);
    }
    const missed = first.isProved ? await catchUp(options, prepared, start, first) : null;
    if (missed !== null) {
      tally.warnings.push(...(await untimedCatchUp(parts, first.needsCatchUp)));
      await proved(missed, await walk(missed), true);
    }
    await deletes.settle();
    return null;
  } catch (error) {
    await learnFrom(error, warehouse, plan, owned);
    return error;
  } finally {
    Object.assign(tally.figures, meter);
  }
}

/** An earlier walk that came to no proved end has left rows, of which some may be gone by now. */
async function withRows({ warehouse }: RunOptions, plan: WalkPlan): Promise<WalkPlan> {
  const { checkpoint, mode, resumed } = plan;
  if (mode !== 'full' || resumed || checkpoint.full_credential !== null) return plan;
  return (await warehouse.count(checkpoint.resource)) === 0 ? plan : { ...plan, checkpoint: sweepable(checkpoint) };
}

/** The plan was made before the walk of another run was swept. */
function knownUnder(plan: WalkPlan, { credential }: NewCredential): WalkPlan {
  return { ...plan, checkpoint: { ...plan.checkpoint, full_credential: credential } };
}

/**
 * A full walk that took long, because it was interrupted or because there is much, has not seen what changed meanwhile
 * behind its back. Where changes can be asked for, they are brought in at once, so that `ok` means the same for all.
 * Null where the walk was quicker than the overlap with which the next one starts anyway, and no record moved meanwhile.
 */
async function catchUp(
  options: RunOptions,
  prepared: Prepared,
  plan: WalkPlan,
  { needsCatchUp }: Walked,
): Promise<WalkPlan | null> {
  const { resource, profile, warnings } = prepared;
  const begun = plan.checkpoint.walk_started_at;
  const { credential, clock, warehouse } = options;
  const now = clock.now();
  if (plan.mode !== 'full' || profile.incremental === null || begun === null) return null;
  // A filter that is not believed catches nothing up.
  if (warnings.length > 0 || (!needsCatchUp && now - timestampMs(begun) <= profile.incremental.overlap)) return null;
  const stored = await readCheckpoint(warehouse.own, resource);
  const asked = { command: 'sync', resource, profile, stored, credential, now } as const;
  const next = planWalk({ ...asked, restart: false, interrupted: null });
  return next.mode === 'incremental' ? next : null;
}

/** What a run does about deleted records, before, between and after its walks. */
function deletesOf(options: RunOptions, { resource, owned }: Prepared, tally: Tally, meter: RequestMeter) {
  const { warehouse, signal } = options;
  const context = deleteContext(options, owned, { meter, signal });
  const swept = async (): Promise<NewCredential | null> => {
    const known = await sweep(context, signal);
    if (known !== null) tally.warnings.push(newCredential(known, resource));
    return known;
  };
  return {
    sweep: swept,
    sweepAfter: async ({ isEmpty }: Walked) => {
      const live = isEmpty ? await warehouse.count(resource) : 0;
      if (live > 0) tally.warnings.push(emptyListing(live, resource));
      await swept();
    },
    settle: async () => {
      const loaded = (outcome: PageOutcome): void => countRecords(tally, outcome);
      const settled = await settleDeletes(options, owned, ['released', 'open'], { meter, signal, loaded });
      tally.figures.deleted += settled.deleted;
      tally.warnings.push(...(await unsettled(context, settled.trouble, options.scrub)));
      await purgeDeleted(context, options.deletes.keep_days, signal);
    },
  };
}

async function walkOnce(
  options: RunOptions,
  { resource, profile, owned }: Prepared,
  { mode, checkpoint }: WalkPlan,
  { met, ...rest }: Pick<ResourceJob, 'meter' | 'figures' | 'passed' | 'repetition'> & { met: Met },
): Promise<SyncedWalk> {
  const { warehouse, clock, runId, listing, client, signal, scrub } = options;
  const walkStartedAt = checkpoint.walk_started_at ?? timestampText(clock.now());
  const notes = await openWalkNotes(warehouse.own, resource, { mode, walkStartedAt });
  const loader = await openPageLoader({
    warehouse,
    owned,
    resources: Object.keys(options.profile.resources),
    profile,
    reading: readingOf(notes),
    notes,
    runId,
    clock,
    signal,
  });
  const runAhead = options.profile.http.concurrency;
  const job = { resource, profile, warehouse, client, listing, runAhead, clock, signal, scrub, ...rest };
  return syncResource(job, noting(loader, met), checkpoint);
}

/** Stores what an error means for the next run, in this process or another one. */
async function learnFrom(error: unknown, warehouse: Warehouse, plan: WalkPlan, owned: OwnedResource): Promise<void> {
  const lesson = lessonOf(error);
  if (lesson === null) return;
  const row = (await readCheckpoint(warehouse.own, plan.checkpoint.resource)) ?? plan.checkpoint;
  // A walk that was given up has met some records only: nothing may be swept after it.
  const forgotten = lesson.walk_mode === null ? [forgetSeen(warehouse.own, row.resource)] : [];
  await warehouse.apply([saveCheckpoint(warehouse.own, { ...row, ...lesson }), ...forgotten], owned.lease());
}

/** When the service may be asked again; or that a walk in circles leads nowhere from here: what it hid lies behind. */
function lessonOf(error: unknown): Partial<CheckpointRow> | null {
  if (error instanceof DeferredError) return { due_at: timestampText(error.until) };
  return error instanceof SyncError && error.code.startsWith('guard_') ? NO_WALK : null;
}
