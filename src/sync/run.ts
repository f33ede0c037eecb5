import type { ListingTarget } from '../extract/listing-url.ts';
import type { Page } from '../extract/page.ts';
import type { ApiClient, RequestMeter } from '../http/client.ts';
import { openPageLoader, type PageOutcome } from './page-loader.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, DeferredError, SyncError, messageOf } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { RunStatus } from '../model/words.ts';
import type { Profile, ResourceProfile } from '../source/profile.ts';
import { NO_WALK, readCheckpoint, saveCheckpoint } from '../state/checkpoints.ts';
import { readTables } from '../state/column-catalog.ts';
import { acquireLease, type Lease } from '../state/leases.ts';
import { countOpenRejects } from '../state/rejects.ts';
import { beginRun, endRun, lastRun, NO_FIGURES, type RunFigures, type RunStart } from '../state/runs.ts';
import type { CheckpointRow, RunRow } from '../warehouse/own-tables.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { interruptedBackfills, planWalk, startWalk, type SyncCommand, type WalkPlan } from './plan.ts';
import { overallStatus, type ResourceReport, type RunReport } from './report.ts';
import { forgetResource } from './restart.ts';
import { syncResource } from './sync-resource.ts';

/** What the run tells those who watch it. */
export interface RunWatcher {
  started(resource: string, plan: WalkPlan): void;
  page(resource: string, page: Page, figures: RunFigures): void;
  ended(report: ResourceReport, error: unknown): void;
}

export interface RunOptions {
  source: string;
  runId: string;
  command: SyncCommand;
  /** Names in the profile, in the order in which they are reported. */
  resources: readonly string[];
  restart: boolean;
  profile: Profile;
  listing: ListingTarget;
  warehouse: Warehouse;
  client: ApiClient;
  clock: Clock;
  signal: AbortSignal;
  watcher: RunWatcher;
  /** Takes secrets out of a text before it is stored. */
  scrub: (text: string) => string;
}

/**
 * Walks the resources side by side through one client. One that fails never takes the others along; a stored state
 * or profile that cannot be used (`ConfigError`) refuses the whole run before its first request.
 */
export async function runSync(options: RunOptions): Promise<RunReport> {
  const leases = new Map<string, Lease>();
  try {
    const lastRuns: RunRow[] = [];
    for (const resource of options.resources) {
      leases.set(resource, await acquireLease(options.warehouse, resource, options.clock));
      const last = await lastRun(options.warehouse.own, resource);
      if (last !== null) lastRuns.push(last);
    }
    const interrupted = options.command === 'backfill' ? interruptedBackfills(lastRuns) : [];
    const prepared: Prepared[] = [];
    for (const resource of options.resources) {
      const part = interrupted.find((run) => run.resource === resource) ?? null;
      prepared.push(await prepare(options, resource, leases.get(resource), part));
    }
    // As one: a backfill that was killed is known by the resources that it had begun together.
    const begun = prepared.flatMap((each) => beginRun(options.warehouse.own, each.run, options.clock.now()));
    await options.warehouse.apply(begun);
    const resources = await allEnded(prepared.map((each) => runResource(options, each)));
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const lease of leases.values()) await lease.release();
  }
}

/** Throws what the first of them threw, but only once none is under way any more: they share a client and a database. */
async function allEnded<T>(runs: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(runs);
  return Promise.all(runs);
}

interface Prepared {
  resource: string;
  profile: ResourceProfile;
  lease: Lease;
  run: RunStart;
  /** The tables that stand; null where there are none yet. */
  shape: ResourceShape | null;
  /** Null where the service asked to be left alone for longer. */
  plan: WalkPlan | null;
  parked: DeferredError | null;
}

async function prepare(
  options: RunOptions,
  resource: string,
  lease: Lease | undefined,
  interrupted: RunRow | null,
): Promise<Prepared> {
  const profile = options.profile.resources[resource];
  if (profile === undefined || lease === undefined) {
    const known = Object.keys(options.profile.resources).join(', ');
    throw new ConfigError('usage', `the profile has no resource "${resource}"`, { hint: `it has ${known}` });
  }
  const { command, restart, clock, warehouse, runId } = options;
  const stored = restart ? null : await readCheckpoint(warehouse.own, resource);
  try {
    const plan = planWalk({ command, resource, profile, stored, restart, interrupted, now: clock.now() });
    if (restart) await forgetResource(warehouse, resource, lease.proof());
    const shape = await readTables(warehouse, resource);
    const run = { run_id: runId, resource, command, mode: plan.mode };
    return { resource, profile, lease, run, shape, plan, parked: null };
  } catch (error) {
    if (!(error instanceof DeferredError)) throw error;
    const run = { run_id: runId, resource, command, mode: 'full' } as const;
    return { resource, profile, lease, run, shape: null, plan: null, parked: error };
  }
}

async function runResource(options: RunOptions, prepared: Prepared): Promise<ResourceReport> {
  const { warehouse, clock, watcher } = options;
  const { resource, run, plan, parked } = prepared;
  const startedAt = clock.monotonic();
  const figures: RunFigures = { ...NO_FIGURES };
  const error = await (plan === null ? Promise.resolve(parked) : walked(options, prepared, plan, figures));
  const status = statusOf(error, figures);
  const said = error === null ? null : explained(error, options.scrub);
  await endRun(warehouse.own, run, { status, figures, error: said }, clock.now());
  const seconds = Math.round(clock.monotonic() - startedAt) / 1_000;
  const report = { resource, mode: run.mode, status, ...figures, seconds, ...(said === null ? {} : { error: said }) };
  watcher.ended(report, error);
  return report;
}

/** Walks a resource to its end; the error that stopped it, or null. Figures are counted into `figures` meanwhile. */
async function walked(
  options: RunOptions,
  { resource, profile, lease, shape }: Prepared,
  plan: WalkPlan,
  figures: RunFigures,
): Promise<unknown> {
  const { warehouse, clock, runId, watcher } = options;
  const meter: RequestMeter = { requests: 0, retries: 0, limited: 0, bytes: 0 };
  const passed = (page: Page, outcome: PageOutcome): void => {
    count(figures, outcome, meter);
    watcher.page(resource, page, figures);
  };
  try {
    watcher.started(resource, plan);
    const openRejects = await countOpenRejects(warehouse.own, resource);
    const loader = await openPageLoader({
      warehouse,
      resource,
      resources: Object.keys(options.profile.resources),
      profile,
      shape,
      mode: plan.mode,
      runId,
      lease: () => lease.proof(),
      openRejects,
      clock,
      signal: options.signal,
    });
    const { listing, client, signal, scrub } = options;
    const runAhead = options.profile.http.concurrency;
    const job = { resource, profile, warehouse, client, listing, runAhead, meter, clock, signal, scrub, passed };
    const again = (start: CheckpointRow) => syncResource(job, loader, start);
    await again(plan.checkpoint).catch((error: unknown) => again(afterExpiredCursor(error, plan, clock.now())));
    return null;
  } catch (error) {
    await learnFrom(error, warehouse, plan, lease);
    return error;
  } finally {
    Object.assign(figures, meter);
  }
}

/** A position that the service no longer knows: the walk begins again, once; what is there already is unchanged. */
function afterExpiredCursor(error: unknown, plan: WalkPlan, now: number): CheckpointRow {
  if (!(error instanceof SyncError) || error.code !== 'cursor_expired') throw error;
  return startWalk(plan.checkpoint, plan.mode, plan.checkpoint.walk_since, now);
}

/** Stores what an error means for the next run, in this process or another one. */
async function learnFrom(error: unknown, warehouse: Warehouse, plan: WalkPlan, lease: Lease): Promise<void> {
  const lesson = lessonOf(error);
  if (lesson === null) return;
  const row = (await readCheckpoint(warehouse.own, plan.checkpoint.resource)) ?? plan.checkpoint;
  await warehouse.apply([saveCheckpoint(warehouse.own, { ...row, ...lesson })], lease.proof());
}

/** When the service may be asked again; or that a walk in circles leads nowhere from here: what it hid lies behind. */
function lessonOf(error: unknown): Partial<CheckpointRow> | null {
  if (error instanceof DeferredError) return { due_at: timestampText(error.until) };
  return error instanceof SyncError && error.code.startsWith('guard_') ? NO_WALK : null;
}

function count(figures: RunFigures, outcome: PageOutcome, meter: RequestMeter): void {
  figures.pages += 1;
  figures.records += outcome.records;
  figures.inserted += outcome.inserted;
  figures.updated += outcome.updated;
  figures.unchanged += outcome.unchanged;
  figures.rejected += outcome.rejected;
  Object.assign(figures, meter);
}

function statusOf(error: unknown, figures: RunFigures): RunStatus {
  if (error === null) return figures.rejected > 0 ? 'partial' : 'ok';
  if (error instanceof DeferredError) return 'deferred';
  return isInterruption(error) ? 'interrupted' : 'failed';
}

/** The signal's reason, thrown through everything that was under way. */
function isInterruption(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'interrupted';
}

function explained(error: unknown, scrub: (text: string) => string): { code: string; message: string; hint?: string } {
  const message = scrub(messageOf(error));
  if (!(error instanceof SyncError)) return { code: 'bug', message };
  return { code: error.code, message, ...(error.hint === undefined ? {} : { hint: scrub(error.hint) }) };
}
