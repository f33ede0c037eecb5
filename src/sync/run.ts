import type { CompiledQuery } from 'kysely';
import { requestIdentity } from '../checks/credential.ts';
import { parentOf } from '../config/profile/request-fields.ts';
import type { CheckpointRow, RunRow } from '../database/own-tables.ts';
import { forgetSeen, NO_WALK, readCheckpoint, saveCheckpoint } from '../database/state/checkpoints.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import {
  beginLater,
  beginRun,
  endRun,
  foldsWith,
  forgetOldRuns,
  isQuiet,
  lastRun,
  type RunEnd,
  type RunFigures,
} from '../database/state/runs.ts';
import { countSuspects, forgetConfirmed } from '../database/state/suspects.ts';
import { countsOf, newMeter } from '../http/client.ts';
import { DeferredError, errorReport, type ErrorReport, SyncError } from '../model/errors.ts';
import { lifetimeOf, lifetimeText } from '../model/service-notice.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import { withinRun } from '../observe/log.ts';
import { columnWarnings } from './column-presence.ts';
import { heldDeleteWarnings } from './deletes/verify-deletes.ts';
import { interruptedBackfills, type WalkPlan } from './plan.ts';
import {
  correctFutureTimes,
  prepareAgain,
  type PreparedResource,
  prepareResource,
  SetBack,
} from './prepare-resource.ts';
import {
  endedStatus,
  overallStatus,
  type ResourceReport,
  type RunOptions,
  type RunReport,
  type Warning,
  withAccepted,
} from './report.ts';
import { type ItemProof, resourceContext, type ResourceContext } from './resource-context.ts';
import { newProgress, type RunContext, sharedKeyWarnings } from './run-progress.ts';
import { syncResource } from './sync-resource.ts';
import { notSynced } from './walk/stored-walk.ts';

/**
 * Syncs the resources side by side through one client. One that fails never takes the others along; a stored state
 * or profile that cannot be used (`ConfigError`) refuses the whole run before its first request.
 */
export function runSync(options: RunOptions): Promise<RunReport> {
  return withinRun({ run_id: options.runId }, () => runResources(options));
}

async function runResources(options: RunOptions): Promise<RunReport> {
  const { warehouse, ownedResources, clock, signal } = options;
  const acquired: OwnedResource[] = [];
  try {
    const lasts = new Map<string, RunRow>();
    const corrected = new Map<string, Warning[]>();
    for (const resource of options.resources) {
      const owned = await ownedResources.acquire(resource);
      acquired.push(owned);
      const found = await lastRun(warehouse.own, resource);
      const notices = await correctFutureTimes(warehouse, owned, found, clock.now());
      const last = notices.length === 0 ? found : await lastRun(warehouse.own, resource);
      corrected.set(resource, notices);
      if (last !== null) lasts.set(resource, last);
    }
    const interrupted = options.command === 'backfill' ? interruptedBackfills([...lasts.values()]) : [];
    const prepared: PreparedResource[] = [];
    for (const owned of acquired) {
      const part = interrupted.find((run) => run.resource === owned.resource) ?? null;
      const context = resourceContext(options, owned, { meter: newMeter(), signal });
      const notices = corrected.get(owned.resource) ?? [];
      prepared.push({ ...(await prepareResource(options, context, part, lasts.get(owned.resource))), notices });
    }
    // As one: a backfill that was killed is known by the resources that it had begun together.
    await warehouse.apply(prepared.flatMap(({ run }) => beginRun(warehouse.own, run, clock.now())));
    const known = await identified(options, prepared);
    const resources = await allEnded(inOrder(options, known));
    // This process was frozen for so long that another one took over: once that has ended, other users here go on.
    for (const [index, { error }] of resources.entries()) {
      if (error?.code === 'lease_lost') await acquired[index]?.reacquire().catch(() => undefined);
    }
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const owned of acquired) await owned.release(true);
  }
}

/** If the profile names an identity path, no resource is walked unless the service knows who is asking. */
async function identified(
  options: RunOptions,
  prepared: readonly PreparedResource[],
): Promise<readonly PreparedResource[]> {
  const { client, listing, signal } = options;
  const path = options.profile.identity;
  if (path === null || prepared.every(({ plan }) => plan === null)) return prepared;
  try {
    await requestIdentity({ client, listing, path, signal });
    return prepared;
  } catch (error) {
    return prepared.map((each) => (each.plan === null ? each : { ...each, stopped: error }));
  }
}

/** Each resource's part, those of which the listings are another one's rows behind that one. */
function inOrder(options: RunOptions, parts: readonly PreparedResource[]): Promise<ResourceReport>[] {
  const begun = new Map<string, Promise<ResourceReport>>();
  const begin = (part: PreparedResource): Promise<ResourceReport> => {
    const { resource } = part.run;
    const parent = parentOf(part.context.profile);
    const before = parts.find(({ run }) => run.resource === parent);
    const run =
      begun.get(resource) ?? (before === undefined ? runResource(options, part) : behind(begin(before), part));
    begun.set(resource, run);
    return run;
  };
  const behind = async (parent: Promise<ResourceReport>, part: PreparedResource): Promise<ResourceReport> => {
    const { status, resource } = await parent;
    const isThere = status === 'ok' || status === 'partial';
    const { warehouse } = part.context;
    await warehouse.apply([beginLater(warehouse.own, part.run, options.clock.now())]);
    const stopped = part.stopped ?? (isThere || part.plan === null ? null : notSynced(resource));
    return runResource(options, { ...part, stopped });
  };
  return parts.map(begin);
}

/**
 * Throws what the first of them threw, but only once none is under way any more: they share a client and a database.
 */
async function allEnded<T>(runs: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(runs);
  return Promise.all(runs);
}

/** So often the database may be set back within a run before the run gives up. */
const MOST_SET_BACKS = 5;

/**
 * One resource's part of a run. Whatever stops its walk becomes its report; only a broken warehouse throws. If the
 * database is set back meanwhile, the part goes on from its present state, as after an interruption.
 */
function runResource(options: RunOptions, prepared: PreparedResource): Promise<ResourceReport> {
  const { run_id, resource } = prepared.run;
  return withinRun({ run_id, resource }, () => runWhole(options, prepared));
}

async function runWhole(options: RunOptions, prepared: PreparedResource): Promise<ResourceReport> {
  const startedAt = options.clock.monotonic();
  const progress = newProgress(prepared.run.mode, [...prepared.notices, ...prepared.warnings], prepared.context.meter);
  const { watcher } = options;
  let part = prepared;
  for (let left = MOST_SET_BACKS; ; left -= 1) {
    try {
      return await attempt({ ...part.context, run: part.run, progress, watcher }, part, { options, startedAt });
    } catch (error) {
      const isSetBack = error instanceof SetBack || (await part.context.owned.recover(error));
      if (left === 0 || !isSetBack) throw error;
    }
    part = await prepareAgain(options, part, progress);
  }
}

async function attempt(
  context: RunContext,
  part: PreparedResource,
  { options, startedAt }: { options: RunOptions; startedAt: number },
): Promise<ResourceReport> {
  const { warehouse, owned, clock, progress, watcher } = context;
  const { shape } = owned;
  const stop = await walkError(context, part);
  let end = await runEnd(context, stop);
  const ended = (): CompiledQuery[] => endStatements(context, part, { end, isGrown: owned.shape !== shape, options });
  // Only what is all still there may be called whole.
  const error = stop ?? (await refusal(() => warehouse.apply(ended(), owned.lease())));
  if (error !== null) {
    if (await owned.recover(error)) throw new SetBack(error);
    if (stop === null) end = await runEnd(context, error);
    await warehouse.apply(ended());
  }
  const { figures, notes, mode } = progress;
  const { resource } = owned;
  const seconds = Math.round(clock.monotonic() - startedAt) / 1_000;
  const { status, warnings } = end;
  const rest = { ...(end.error === null ? {} : { error: end.error }), ...(warnings.length === 0 ? {} : { warnings }) };
  const report = { resource, mode, status, ...figures, seconds, ...rest };
  watcher.ended(report, notes, error);
  return report;
}

const DAY_MS = 86_400_000;

/**
 * What is written down of the end: a run that changed nothing goes into one row with the one before it, and with any
 * other end those that are too old are forgotten, so that nothing is paid where nothing happens.
 */
function endStatements(
  { warehouse, clock, progress, run: { run_id, resource, command } }: RunContext,
  { last }: PreparedResource,
  { end, isGrown, options }: { end: ReportedEnd; isGrown: boolean; options: RunOptions },
): CompiledQuery[] {
  const run = { run_id, resource, command, mode: progress.mode };
  const now = clock.now();
  const isSilent = isQuiet(end) && !isGrown;
  const before = isSilent && last !== null && foldsWith(last, run, end) ? last : null;
  // Once the run is whole, those are of no use whose delete a person has decided before yesterday.
  const decided = end.error === null ? [forgetConfirmed(warehouse.own, resource, timestampText(now - DAY_MS))] : [];
  const statements = [...endRun(warehouse.own, run, end, now, before), ...decided];
  return isSilent ? statements : [...statements, forgetOldRuns(warehouse.own, run, options.keepRunsMs, now)];
}

/**
 * Walks the resource to its end. Returns the error that stopped it, or null; its meaning for the next run is stored.
 */
async function walkError(context: RunContext, { plan, stopped, warnings }: PreparedResource): Promise<unknown> {
  if (plan === null) return stopped;
  try {
    if (stopped !== null) throw stopped;
    await syncResource(context, plan, warnings.length === 0);
    return null;
  } catch (error) {
    await learnFrom(context, plan, error);
    return error;
  } finally {
    Object.assign(context.progress.figures, countsOf(context.meter));
  }
}

/** Why the lease does not allow something; null if it does. Throws anything else. */
async function refusal(work: () => Promise<void>): Promise<SyncError | null> {
  try {
    await work();
    return null;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'lease_lost') return error;
    throw error;
  }
}

/** Stores what an error means for the next run, in this process or another one. */
async function learnFrom({ warehouse, owned }: ResourceContext, plan: WalkPlan, error: unknown): Promise<void> {
  const lesson = lessonOf(error);
  if (lesson === null) return;
  const row = (await readCheckpoint(warehouse.own, plan.checkpoint.resource)) ?? plan.checkpoint;
  // A walk that was given up has met some records only: nothing may be swept after it.
  const forgotten = lesson.walk_mode === null ? [forgetSeen(warehouse.own, row.resource)] : [];
  await warehouse.apply([saveCheckpoint(warehouse.own, { ...row, ...lesson }), ...forgotten], owned.lease());
}

/** When the service may be asked again; or that a walk in circles has to begin again: what it hid lies behind it. */
function lessonOf(error: unknown): Partial<CheckpointRow> | null {
  if (error instanceof DeferredError) return { due_at: timestampText(error.until) };
  return error instanceof SyncError && error.code.startsWith('guard_') ? NO_WALK : null;
}

/** How a resource's part of a run has ended, with its warnings. */
interface ReportedEnd extends RunEnd {
  error: ErrorReport | null;
  warnings: Warning[];
}

/** `error` is what stopped it, or null. */
async function runEnd(context: RunContext, error: unknown): Promise<ReportedEnd> {
  const { warehouse, owned, profile, proof, scrub, progress } = context;
  const { figures } = progress;
  figures.held = await countSuspects(warehouse.own, owned.resource, 'held');
  const found = [
    ...(await heldDeleteWarnings(context, figures.held)),
    ...progress.warnings,
    ...itemWarnings(proof, scrub),
    ...sharedKeyWarnings(progress),
    ...(error === null ? await columnWarnings(context) : []),
    ...lifetimeWarnings(context),
  ];
  const warnings = withAccepted(found, profile.accept);
  const status = statusOf(error, figures, warnings);
  const { outcomes } = progress.meter;
  return { status, figures, error: error === null ? null : errorReport(error, scrub), warnings, outcomes };
}

function statusOf(error: unknown, figures: RunFigures, warnings: readonly Warning[]): RunStatus {
  if (error === null) return endedStatus(figures, warnings);
  if (error instanceof DeferredError) return 'deferred';
  // The signal's reason, thrown through everything that was under way.
  return error instanceof SyncError && error.code === 'interrupted' ? 'interrupted' : 'failed';
}

/** What was said in this time by an answer to this process still holds. */
const LATELY_MS = 3_600_000;

/** Reported while the service says that it will give up the API: nothing is wrong with the copy yet. */
function lifetimeWarnings({ notices, clock, scrub }: ResourceContext): Warning[] {
  const lifetime = lifetimeOf(notices.since(clock.now() - LATELY_MS));
  if (lifetime === null) return [];
  const { what, next, isEnding } = lifetimeText(lifetime, clock.now());
  return isEnding ? [{ code: 'api_deprecated', message: scrub(what), hint: scrub(next) }] : [];
}

/** Reported in every run after a record that was read alone turned out to differ from the listed one. */
function itemWarnings({ fault }: ItemProof, scrub: (text: string) => string): Warning[] {
  if (fault === null || fault.isMore) return [];
  return [
    {
      code: 'item_unproved',
      message: scrub(`records read alone are not believed: ${fault.detail}`),
      hint: 'set item, item_query and item_record so that the answer is the listed record, or `item: null`; `accept: [item]` takes what is read alone as it is',
    },
  ];
}
