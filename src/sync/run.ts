// Runs a sync of several resources, for every command and schedule: prepares them, syncs them in parallel, and stores and
// reports how each ended. One that fails does not stop the others: if `images` is refused, `content` is copied all the same.
import type { CompiledQuery } from 'kysely';
import { requestIdentity } from '../checks/credential.ts';
import { findParent } from '../config/profile/request-fields.ts';
import type { CheckpointRow, RunRow } from '../database/own-tables.ts';
import { deleteSeenPages, NO_SCAN, readCheckpoint, saveCheckpoint } from '../database/state/checkpoints.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import {
  beginLater,
  beginRun,
  changedNothing,
  endRun,
  forgetOldRuns,
  lastRun,
  repeatsRun,
  type RunEnd,
} from '../database/state/runs.ts';
import { countDeleteCandidates, forgetSettled } from '../database/state/suspects.ts';
import { countsOf, newMeter } from '../http/client.ts';
import { DeferredError, errorReport, type ErrorReport, SyncError } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { RunStatus } from '../model/vocabulary.ts';
import { withinRun } from '../observe/log.ts';
import { columnWarnings } from './column-warnings.ts';
import { heldDeleteWarnings } from './deletes/verify-deletes.ts';
import { type ScanPlan, selectInterruptedBackfills } from './plan.ts';
import { correctFutureTimes, type PreparedResource, prepareResource } from './prepare-resource.ts';
import {
  endedStatus,
  overallStatus,
  type ResourceReport,
  type RunOptions,
  type RunReport,
  type Warning,
  withAccepted,
} from './report.ts';
import { createResourceContext, type ItemProof, type ResourceContext } from './resource-context.ts';
import { newProgress, type RunContext, sharedKeyWarnings } from './run-progress.ts';
import { notSynced } from './scan/list-partitions.ts';
import { syncResource } from './sync-resource.ts';

/**
 * Syncs the resources. Throws `ConfigError` before the first request if the stored state or the profile of any of them
 * cannot be used.
 */
export function runSync(options: RunOptions): Promise<RunReport> {
  return withinRun({ run_id: options.runId }, () => runResources(options));
}

async function runResources(options: RunOptions): Promise<RunReport> {
  const { warehouse, ownedResources, clock } = options;
  const acquired: OwnedResource[] = [];
  try {
    for (const resource of options.resources) acquired.push(await ownedResources.acquire(resource));
    const prepared = await prepareResources(options, acquired);
    // In one transaction: a backfill that was killed is recognised by the resources that it had begun together.
    await warehouse.apply(prepared.flatMap(({ run }) => beginRun(warehouse.own, run, clock.now())));
    const runs = startInOrder(options, await verifyIdentity(options, prepared));
    // Waits for all before it throws, because they share a client and a database.
    await Promise.allSettled(runs);
    const resources = await Promise.all(runs);
    // Another process took the lease while this one was frozen. After it has ended, webhooks may use the resource again.
    for (const [index, { error }] of resources.entries()) {
      if (error?.code === 'lease_lost') await acquired[index]?.reacquire().catch(() => undefined);
    }
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const owned of acquired) await owned.release(true);
  }
}

async function prepareResources(
  options: RunOptions,
  acquired: readonly OwnedResource[],
): Promise<readonly PreparedResource[]> {
  const { warehouse, clock, signal } = options;
  const corrected: { owned: OwnedResource; last: RunRow | null; notices: Warning[] }[] = [];
  for (const owned of acquired) {
    const last = await lastRun(warehouse.own, owned.resource);
    const notices = await correctFutureTimes(warehouse, owned, last, clock.now());
    corrected.push({
      owned,
      notices,
      last: notices.length === 0 ? last : await lastRun(warehouse.own, owned.resource),
    });
  }
  const lastRuns = corrected.flatMap(({ last }) => last ?? []);
  const interrupted = options.command === 'backfill' ? selectInterruptedBackfills(lastRuns) : [];
  const prepared: PreparedResource[] = [];
  for (const { owned, last, notices } of corrected) {
    const resumed = interrupted.find(({ resource }) => resource === owned.resource) ?? null;
    const context = createResourceContext(options, owned, { meter: newMeter(), signal });
    prepared.push({ ...(await prepareResource(options, context, resumed, last)), notices });
  }
  return prepared;
}

/** If the profile names an identity path, no resource is scanned unless the service accepts the credential there. */
async function verifyIdentity(
  { client, listing, signal, profile }: RunOptions,
  prepared: readonly PreparedResource[],
): Promise<readonly PreparedResource[]> {
  const path = profile.identity;
  if (path === null || prepared.every(({ plan }) => plan === null)) return prepared;
  try {
    await requestIdentity({ client, listing, path, signal });
    return prepared;
  } catch (error) {
    return prepared.map((each) => (each.plan === null ? each : { ...each, stopped: error }));
  }
}

/**
 * Starts to sync all resources. One that has a listing for each row of another resource, such as the comments of each
 * post, starts after that one.
 */
function startInOrder(options: RunOptions, parts: readonly PreparedResource[]): Promise<ResourceReport>[] {
  const started = new Map<string, Promise<ResourceReport>>();
  const startOnce = (part: PreparedResource): Promise<ResourceReport> => {
    const report = started.get(part.run.resource) ?? start(part);
    started.set(part.run.resource, report);
    return report;
  };
  const start = (part: PreparedResource): Promise<ResourceReport> => {
    const parent = parts.find(({ run }) => run.resource === findParent(part.context.profile));
    return parent === undefined ? runResource(options, part) : startAfter(startOnce(parent), part);
  };
  const startAfter = async (parent: Promise<ResourceReport>, part: PreparedResource): Promise<ResourceReport> => {
    const { status, resource } = await parent;
    const isSynced = status === 'ok' || status === 'partial';
    const { warehouse } = part.context;
    await warehouse.apply([beginLater(warehouse.own, part.run, options.clock.now())]);
    const stopped = part.stopped ?? (isSynced || part.plan === null ? null : notSynced(resource));
    return runResource(options, { ...part, stopped });
  };
  return parts.map(startOnce);
}

/** One resource's part of a run. An error that stops its scan becomes its report; only a broken warehouse throws. */
function runResource(options: RunOptions, part: PreparedResource): Promise<ResourceReport> {
  const { run_id, resource } = part.run;
  return withinRun({ run_id, resource }, async () => {
    const { run, notices, warnings, context } = part;
    const progress = newProgress(run.mode, [...notices, ...warnings], context.meter);
    return syncAndStore({ ...context, run, progress, watcher: options.watcher }, part, options);
  });
}

/** Syncs a resource, and stores and reports how its part of the run ended. */
async function syncAndStore(context: RunContext, part: PreparedResource, options: RunOptions): Promise<ResourceReport> {
  const { warehouse, owned, clock, progress, watcher } = context;
  const { shape: shapeBefore, resource } = owned;
  const startedAt = clock.monotonic();
  const scanError = await trySync(context, part);
  let end = await concludeRun(context, scanError);
  const statements = (): CompiledQuery[] => endStatements(context, part, end, owned.shape !== shapeBefore, options);
  // A run is stored as complete only under the lease; one that failed is stored without it.
  let error = scanError ?? (await catchLostLease(() => owned.commit(statements())));
  if (error !== null) {
    if (await owned.recover(error)) error = lostCommitsError(error);
    if (error !== scanError) end = await concludeRun(context, error);
    await warehouse.apply(statements());
  }
  const { figures, notes, mode } = progress;
  const seconds = Math.round(clock.monotonic() - startedAt) / 1_000;
  const { status, warnings } = end;
  const rest = { ...(end.error === null ? {} : { error: end.error }), ...(warnings.length === 0 ? {} : { warnings }) };
  const report = { resource, mode, status, ...figures, seconds, ...rest };
  watcher.ended(report, notes, error);
  return report;
}

/** The error if the database has lost confirmed commits, for example by a failover to a replica that lagged behind. */
function lostCommitsError(cause: unknown): SyncError {
  return new SyncError('warehouse_unreachable', 'the database forgot what it had confirmed to this run', {
    recovery: 'retry',
    hint: 'run the same command again: it resumes from what the database has; let the primary wait for a replica (synchronous_standby_names), or see who restores backups',
    cause,
  });
}

const DAY_MS = 86_400_000;

/**
 * Returns the statements that store the end of a run. A run that changed nothing replaces the one before it, if that is
 * alike; a run that changed something also deletes old runs.
 */
function endStatements(
  { warehouse, clock, progress, run: { run_id, resource, command } }: RunContext,
  { last }: PreparedResource,
  end: ReportedEnd,
  hasGrown: boolean,
  { keepRunsMs }: RunOptions,
): CompiledQuery[] {
  const run = { run_id, resource, command, mode: progress.mode };
  const now = clock.now();
  const isSilent = changedNothing(end) && !hasGrown;
  const replaced = isSilent && last !== null && repeatsRun(last, run, end) ? last : null;
  // After a complete run, deletes that an operator has decided more than a day ago are forgotten.
  const decided = end.error === null ? [forgetSettled(warehouse.own, resource, timestampText(now - DAY_MS))] : [];
  const statements = [...endRun(warehouse.own, run, end, now, replaced), ...decided];
  return isSilent ? statements : [...statements, forgetOldRuns(warehouse.own, run, keepRunsMs, now)];
}

/** Syncs the resource. Returns the error that stopped it, after storing what it means for the next run; null if none. */
async function trySync(context: RunContext, { plan, stopped, warnings }: PreparedResource): Promise<unknown> {
  if (plan === null) return stopped;
  try {
    if (stopped !== null) throw stopped;
    await syncResource(context, plan, warnings.length === 0);
    return null;
  } catch (error) {
    await storeConsequence(context, plan, error);
    return error;
  } finally {
    Object.assign(context.progress.figures, countsOf(context.meter));
  }
}

/** Returns `lease_lost` if `work` throws it, else null. Throws anything else. */
async function catchLostLease(work: () => Promise<void>): Promise<SyncError | null> {
  try {
    await work();
    return null;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'lease_lost') return error;
    throw error;
  }
}

/** Stores what an error means for the next run, in this process or another one. */
async function storeConsequence({ warehouse, owned }: ResourceContext, plan: ScanPlan, error: unknown): Promise<void> {
  let change: Partial<CheckpointRow>;
  if (error instanceof DeferredError) change = { due_at: timestampText(error.until) };
  // A listing that goes in circles is scanned from its beginning again, because records may have been skipped.
  else if (error instanceof SyncError && error.code === 'guard_loop') change = NO_SCAN;
  else return;
  const row = (await readCheckpoint(warehouse.own, plan.checkpoint.resource)) ?? plan.checkpoint;
  // An abandoned scan has seen only some records, so the others must not be deleted.
  const forgotten = change.walk_mode === null ? [deleteSeenPages(warehouse.own, row.resource)] : [];
  await owned.commit([saveCheckpoint(warehouse.own, { ...row, ...change }), ...forgotten]);
}

/** How a resource's part of a run has ended, with its warnings. */
interface ReportedEnd extends RunEnd {
  error: ErrorReport | null;
  warnings: Warning[];
}

/** Collects the status and the warnings of a run; `error` is what stopped it, or null. */
async function concludeRun(context: RunContext, error: unknown): Promise<ReportedEnd> {
  const { warehouse, owned, profile, proof, scrub, progress } = context;
  const { figures, meter } = progress;
  figures.held = await countDeleteCandidates(warehouse.own, owned.resource, 'held');
  const found = [
    ...(await heldDeleteWarnings(context, figures.held)),
    ...progress.warnings,
    ...itemWarnings(proof, scrub),
    ...sharedKeyWarnings(progress),
    ...(error === null ? await columnWarnings(context) : []),
  ];
  const warnings = withAccepted(found, profile.accept);
  let status: RunStatus = 'failed';
  if (error === null) status = endedStatus(figures, warnings);
  else if (error instanceof DeferredError) status = 'deferred';
  else if (error instanceof SyncError && error.code === 'interrupted') status = 'interrupted';
  const report = error === null ? null : errorReport(error, scrub);
  return { status, counters: figures, error: report, warnings, outcomes: meter.outcomes };
}

/** Warns in every run after an individually fetched record has differed from the listed one. */
function itemWarnings({ fault }: ItemProof, scrub: (text: string) => string): Warning[] {
  if (fault === null || fault.isMore) return [];
  return [
    {
      code: 'item_unproved',
      message: scrub(`individually fetched records are not accepted: ${fault.detail}`),
      hint: 'set item, item_query and item_record so that the answer is the listed record, or `item: null`; `accept: [item]` takes what is read alone as it is',
    },
  ];
}
