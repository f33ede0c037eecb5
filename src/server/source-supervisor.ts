// Keeps one source open and fresh while `serve` runs: schedule, deliveries, confirmed deletes, files. Several processes on one
// Postgres may serve the same source; only the one that leads it runs what is due.
import type { Logger } from 'pino';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { SourceSettings } from '../config/settings.ts';
import type { Inbox } from '../database/inbox.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { readNextDue } from '../database/state/files.ts';
import { resourcesToErase } from '../database/state/forgotten.ts';
import { lastEndedRun } from '../database/state/runs.ts';
import { readPauses } from '../database/state/server-state.ts';
import { releasedResources } from '../database/state/suspects.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { RateLimiterMetrics } from '../http/rate-limit/rate-limiter.ts';
import type { Clock } from '../model/clock.ts';
import { errorReport, messageOf, SyncError } from '../model/errors.ts';
import { timestampMs } from '../model/timestamp-text.ts';
import { repeatUntilAborted, sleepOrAbort, untilAborted } from '../model/waiting.ts';
import type { Metrics } from '../observe/metrics.ts';
import { haveRecordsChanged } from '../sync/files/due-files.ts';
import { logFiles } from '../sync/files/sync-files.ts';
import type { RunWatcher } from '../sync/report.ts';
import type { App } from './app.ts';
import type { Drain } from './inbox/drain.ts';
import { combineWatchers, logRuns } from './log-runs.ts';
import { createPings, type Pings } from './ping.ts';
import type { ScheduleParts, ScheduleState } from './schedule/resource.ts';
import { Scheduler } from './schedule/scheduler.ts';
import { SourceActivity } from './source-activity.ts';

/** Does the work on a source: in this process (`local-work.ts`), or in any process of the cluster (`cluster/cluster.ts`). */
export interface SourceWork {
  /** Pause between two calls of `maintain`. */
  readonly maintenanceIntervalMs: number;
  /** Opens the source; `opened` closes it again. Throws if it cannot be opened. */
  open(opened: AsyncDisposableStack, stopping: AbortSignal): Promise<OpenSource>;
  /** Null while this process sends no requests. */
  rateLimiter(): RateLimiterMetrics | null;
  /** Called when deliveries have been stored. */
  wake(): void;
  /** Forgets that the service has refused a credential or a record, with `now` also waits that it has requested. */
  retry(now: boolean): Promise<void>;
}

/** A source that `SourceWork` has opened. */
export interface OpenSource {
  warehouse: Warehouse;
  /** Passes the open source to `work`. */
  use: <T>(work: (app: App) => Promise<T>) => Promise<T>;
  /** Scans a resource, in this process or by the queue. */
  scan: ScheduleParts['run'];
  /** Starts to process deliveries; null if other processes may do that. */
  startDrain(scan: Scheduler['scanWhenAllowed']): Drain | null;
  /** Maintains warehouse and queue; called about every `maintenanceIntervalMs`. */
  maintain: () => Promise<void>;
}

/** The inbox of a source, in which the receiver stores deliveries: the methods that reading, status and drain use. */
export interface ReceivedInbox {
  waiting: Inbox['waiting'];
  settle: Inbox['settle'];
  figures: Inbox['figures'];
  list: Inbox['list'];
}

/** A source and what a process needs to sync it. */
export interface WatchedSource {
  source: SourceSettings;
  log: Logger;
  activity: SourceActivity;
  /** Called with the runs of the source; `activity` is one of those that it calls. */
  watcher: RunWatcher;
}

/** Creates the log of a source, and its counters for status and metrics. Starts of runs are logged at `startLevel`. */
export function watchSource(
  source: SourceSettings,
  { clock, log, metrics }: { clock: Clock; log: Logger; metrics: Metrics },
  startLevel: 'info' | 'debug',
): WatchedSource {
  const sourceLog = log.child({ source: source.name });
  const activity = new SourceActivity(source.name, clock, metrics);
  return {
    source,
    log: sourceLog,
    activity,
    watcher: combineWatchers(activity, logRuns(sourceLog, clock, startLevel)),
  };
}

export interface SupervisorOptions extends WatchedSource {
  clock: Clock;
  work: SourceWork;
}

/** Between two attempts to open a source that cannot be opened, such as one whose disk is not mounted yet. */
const REOPEN_MS = 15_000;

/**
 * Keeps one source fresh until it is stopped: it opens the source, runs what is due while this process leads the source,
 * and opens it again after a failure. Errors in the source are logged and never end the supervision.
 */
export class SourceSupervisor {
  readonly source: SourceSettings;
  readonly work: SourceWork;
  readonly #options: SupervisorOptions;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>;
  #open: OpenSource | null = null;
  /** Why the source is not open. */
  #problem: unknown = openingError();
  /** Null while the source is not open, or another process leads it. */
  #scheduler: Scheduler | null = null;
  #isLeader = false;
  /** Aborted when this process becomes the leader of the source, or no longer is. */
  #leaderChange = new AbortController();

  constructor(options: SupervisorOptions) {
    this.source = options.source;
    this.work = options.work;
    this.#options = options;
    this.#ended = this.#superviseUntilStopped();
  }

  /** Passes the open warehouse to `work`; throws the reason if there is none. */
  readonly read = async <T>(work: (warehouse: Warehouse) => Promise<T>): Promise<T> => {
    if (this.#open === null) throw this.#problem;
    return work(this.#open.warehouse);
  };

  /** Starts a scan that need not be due; null while the source is not open. */
  get scanNow(): Scheduler['scanNow'] | null {
    const open = this.#open;
    if (this.#scheduler !== null) return this.#scheduler.scanNow;
    if (open === null || this.#isLeader) return null;
    // Another process leads the source, and runs what is due: a requested scan takes the same queue.
    return (resource, command) => open.scan(resource, command, this.#stopping.signal, { is: 'requested' });
  }

  get isLeader(): boolean {
    return this.#isLeader;
  }

  /** Undefined while this process does not lead the source. */
  schedule(resource: string): ScheduleState | undefined {
    return this.#scheduler?.states().find((each) => each.resource === resource);
  }

  /** Forgets the failures of these resources, with `now` also waits that the service has requested. */
  async retry(resources: readonly string[], now: boolean): Promise<void> {
    await this.work.retry(now);
    this.#scheduler?.retry(resources);
  }

  /** Sets whether this process leads the source from now on: only the leader runs what is due. */
  setLeader(isLeader: boolean): void {
    if (isLeader === this.#isLeader) return;
    this.#isLeader = isLeader;
    this.#leaderChange.abort(endingError());
    this.#leaderChange = new AbortController();
  }

  /** Aborts the work in progress, and waits for its end. */
  async stop(): Promise<void> {
    this.#stopping.abort(endingError());
    await this.#ended;
  }

  async #superviseUntilStopped(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#superviseOnce(signal);
      } catch (error) {
        this.#problem = error;
        if (error !== signal.reason) log.error({ error }, `the source cannot be opened: ${messageOf(error)}`);
      }
      await sleepOrAbort(clock, REOPEN_MS, signal);
    }
  }

  /** Opens the source, and runs what is due while this process leads it, until it is stopped. */
  async #superviseOnce(stopping: AbortSignal): Promise<void> {
    await using opened = new AsyncDisposableStack();
    const pings = createPings(this.source.ping, this.#options.log);
    opened.defer(() => pings.close());
    const open = await this.work.open(opened, stopping);
    this.#open = open;
    this.#problem = openingError();
    opened.defer(() => {
      this.#open = null;
    });
    while (!stopping.aborted) {
      const signal = AbortSignal.any([stopping, this.#leaderChange.signal]);
      await (this.#isLeader ? this.#lead(open, pings, signal) : untilAborted(signal));
    }
  }

  /** Runs what is due until the signal. */
  async #lead(open: OpenSource, pings: Pings, signal: AbortSignal): Promise<void> {
    const { source, clock, log, work } = this.#options;
    const { own } = open.warehouse;
    const scheduler = new Scheduler({
      source: source.name,
      resources: syncedResources(source),
      schedule: source.schedule,
      clock,
      checkpoints: (resource) => readCheckpoint(own, resource),
      isPaused: async (resource) => (await readPauses(own)).has(resource),
      run: (resource, ...rest) => pings.around([resource], () => open.scan(resource, ...rest)),
      failed: (resource, error) => log.error({ resource, error }, `the run did not begin: ${messageOf(error)}`),
    });
    const drain = open.startDrain(scheduler.scanWhenAllowed);
    this.#scheduler = scheduler;
    scheduler.start();
    const failed = (error: unknown): void => log.warn({ error }, `the maintenance was deferred: ${messageOf(error)}`);
    const period = { clock, everyMs: work.maintenanceIntervalMs, signal, failed };
    // A job that hangs does not delay the others.
    const jobs = [open.maintain, () => deleteRequested(open, signal), createFilesJob(this.#options, open)];
    await Promise.all(jobs.map((job) => repeatUntilAborted(period, () => job(signal))));
    this.#scheduler = null;
    // In parallel: the drain finishes its fetches, but does not wait for syncs that it has requested.
    await Promise.all([scheduler.stop(), drain?.stop()]);
  }
}

/** Carries out the deletes that a user has confirmed, and erases the records that a user wants to be forgotten. */
async function deleteRequested({ warehouse: { own }, use }: OpenSource, signal: AbortSignal): Promise<void> {
  const resources = new Set([...(await releasedResources(own)), ...(await resourcesToErase(own))]);
  if (resources.size === 0) return;
  await use(async (app) => {
    for (const resource of resources) {
      try {
        await app.eraseForgotten(resource, signal);
        await app.confirmReleased(resource, signal);
      } catch (error) {
        // The sync that owns the resource does the same.
        if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      }
    }
  });
}

function openingError(): SyncError {
  return new SyncError('warehouse_opening', 'the warehouse is being opened', { recovery: 'retry' });
}

/** The reason with which all work of a source is aborted. */
export function endingError(): SyncError {
  return new SyncError('interrupted', 'serve is ending', { recovery: 'stop' });
}

/** Pause of the files job after an error that stopped all files. */
const FILES_RETRY_MS = 30_000;

/**
 * Returns the job that fetches the files of a source that are due, and reports in the newest run of each resource which
 * files are missing, as a command does. A full store, or another error that passes, is retried later.
 */
function createFilesJob(
  { source, clock, log, activity }: SupervisorOptions,
  { warehouse, use }: OpenSource,
): (signal: AbortSignal) => Promise<void> {
  let retryAt = 0;
  /** The run of each resource in which missing files were last reported. */
  let reported: ReadonlyMap<string, string> = new Map();
  return async (signal) => {
    const now = clock.now();
    if (Object.keys(source.files.kept).length === 0 || now < retryAt) return;
    let due: string[] = [];
    try {
      const found = await findDueFiles(warehouse, source, now);
      due = found.due;
      const others = [...found.runs].filter(([resource]) => !due.includes(resource));
      const unreported = others.flatMap(([resource, run]) => (reported.get(resource) === run ? [] : [resource]));
      if (due.length > 0) {
        const reports = await use((app) => app.files.fetch({ resources: due, signal, saved: activity.fileSaved }));
        logFiles(log, reports);
        activity.noteFilesStopped(null);
        await use((app) => app.files.updateNewestRuns(reports));
      }
      if (unreported.length > 0) await use((app) => reportMissing(app, unreported));
      reported = found.runs;
    } catch (error) {
      if (signal.aborted) return;
      retryAt = clock.now() + FILES_RETRY_MS;
      const { code, hint } = errorReport(error);
      // The command that holds the lease, such as `files prune`, ends soon.
      if (code === 'lease_held') return log.debug({ error }, 'another process fetches the files');
      log.warn({ error, ...(hint === undefined ? {} : { hint }) }, `the files were deferred: ${messageOf(error)}`);
      activity.noteFilesStopped(error);
      // If the warehouse is what fails, the run cannot be updated either.
      if (due.length > 0) await use((app) => reportMissing(app, due, error)).catch(() => undefined);
    }
  };
}

async function reportMissing({ files }: App, resources: readonly string[], stopped?: unknown): Promise<void> {
  await files.updateNewestRuns(await files.countFiles(resources, stopped));
}

/** Resources with files to find or fetch now, and the newest ended run of each resource. */
async function findDueFiles(warehouse: Warehouse, { files, profile }: SourceSettings, now: number) {
  const { own } = warehouse;
  const paused = await readPauses(own);
  const runs = new Map<string, string>();
  const due: string[] = [];
  for (const resource of Object.keys(files.kept)) {
    if (paused.has(resource) || profile.resources[resource] === undefined) continue;
    const last = await lastEndedRun(own, resource);
    if (last !== null) runs.set(resource, last.run_id);
    const dueAt = await readNextDue(own, [resource]);
    const isDue =
      (dueAt !== null && timestampMs(dueAt) <= now) ||
      (await haveRecordsChanged({ warehouse, settings: files, now }, resource));
    if (isDue) due.push(resource);
  }
  return { due, runs };
}

/** The profile's resources that the settings choose, by name. */
export function syncedResources({ profile, resources }: SourceSettings): Record<string, ResourceProfile> {
  return Object.fromEntries(Object.entries(profile.resources).filter(([name]) => resources.includes(name)));
}
