import type { ListingTarget } from '../extract/listing-url.ts';
import type { Page } from '../extract/page.ts';
import type { ApiClient, RequestMeter } from '../http/client.ts';
import { openPageLoader, type PageOutcome } from './page-loader.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, DeferredError, SyncError, messageOf } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { RunStatus } from '../model/words.ts';
import type { Profile, ResourceProfile } from '../source/profile.ts';
import { readCheckpoint, saveCheckpoint } from '../state/checkpoints.ts';
import { acquireLease, type Lease } from '../state/leases.ts';
import { countOpenRejects } from '../state/rejects.ts';
import { beginRun, endRun, NO_FIGURES, type RunFigures } from '../state/runs.ts';
import type { CheckpointRow } from '../warehouse/own-tables.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { planWalk, startWalk, type SyncCommand, type WalkPlan } from './plan.ts';
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
    const prepared: Prepared[] = [];
    for (const resource of options.resources) {
      leases.set(resource, await acquireLease(options.warehouse, resource, options.clock));
      prepared.push(await prepare(options, resource, leases.get(resource)));
    }
    const resources = await Promise.all(prepared.map((each) => runResource(options, each)));
    const status = overallStatus(resources.map((report) => report.status));
    return { source: options.source, run_id: options.runId, status, resources };
  } finally {
    for (const lease of leases.values()) await lease.release();
  }
}

interface Prepared {
  resource: string;
  profile: ResourceProfile;
  lease: Lease;
  /** Null where the service asked to be left alone for longer. */
  plan: WalkPlan | null;
  parked: DeferredError | null;
}

async function prepare(options: RunOptions, resource: string, lease: Lease | undefined): Promise<Prepared> {
  const profile = options.profile.resources[resource];
  if (profile === undefined || lease === undefined) {
    const known = Object.keys(options.profile.resources).join(', ');
    throw new ConfigError('usage', `the profile has no resource "${resource}"`, { hint: `it has ${known}` });
  }
  const { command, restart, clock, warehouse } = options;
  const stored = restart ? null : await readCheckpoint(warehouse.own, resource);
  try {
    const plan = planWalk({ command, resource, profile, stored, restart, now: clock.now() });
    if (restart) await forgetResource(warehouse, resource, lease.proof());
    return { resource, profile, lease, plan, parked: null };
  } catch (error) {
    if (error instanceof DeferredError) return { resource, profile, lease, plan: null, parked: error };
    throw error;
  }
}

async function runResource(options: RunOptions, prepared: Prepared): Promise<ResourceReport> {
  const { warehouse, clock, runId, command, watcher } = options;
  const { resource, plan, parked } = prepared;
  const startedAt = clock.monotonic();
  const mode = plan?.mode ?? 'full';
  const run = { run_id: runId, resource, command, mode };
  const figures: RunFigures = { ...NO_FIGURES };
  await beginRun(warehouse.own, run, clock.now());
  const error = await (plan === null ? Promise.resolve(parked) : walked(options, prepared, plan, figures));
  const status = statusOf(error, figures);
  const said = error === null ? null : explained(error, options.scrub);
  await endRun(warehouse.own, run, { status, figures, error: said }, clock.now());
  const seconds = Math.round(clock.monotonic() - startedAt) / 1_000;
  const report = { resource, mode, status, ...figures, seconds, ...(said === null ? {} : { error: said }) };
  watcher.ended(report, error);
  return report;
}

/** Walks a resource to its end; the error that stopped it, or null. Figures are counted into `figures` meanwhile. */
async function walked(
  options: RunOptions,
  { resource, profile, lease }: Prepared,
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
      warehouse, resource, profile, mode: plan.mode, runId, lease: () => lease.proof(), openRejects, clock,
    });
    const { listing, client, signal } = options;
    const runAhead = options.profile.http.concurrency;
    const job = { resource, profile, warehouse, client, listing, runAhead, meter, clock, signal, passed };
    const again = (start: CheckpointRow) => syncResource(job, loader, start);
    await again(plan.checkpoint).catch((error: unknown) => again(afterExpiredCursor(error, plan, clock.now())));
    return null;
  } catch (error) {
    if (error instanceof DeferredError) await park(warehouse, plan, error, lease);
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

/** Remembers when the service may be asked again, for this process and the next one. */
async function park(warehouse: Warehouse, plan: WalkPlan, error: DeferredError, lease: Lease): Promise<void> {
  const row = (await readCheckpoint(warehouse.own, plan.checkpoint.resource)) ?? plan.checkpoint;
  const parked = { ...row, due_at: timestampText(error.until) };
  await warehouse.apply([saveCheckpoint(warehouse.own, parked)], lease.proof());
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
