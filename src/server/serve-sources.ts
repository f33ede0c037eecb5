// The core of `serve`: gives each source a supervisor, which keeps it fresh, and connects the supervisors with webhooks,
// alerts, status and controls.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.ts';
import type { Clock } from '../model/clock.ts';
import type { Metrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub.ts';
import { Alerts, alertSettings, type AlertSource } from './alerts/alerts.ts';
import { Cluster, isShared } from './cluster/cluster.ts';
import { createControls } from './controls/create-controls.ts';
import { createLocalWork } from './local-work.ts';
import { type ReceivedInbox, SourceSupervisor, type WatchedSource, watchSource } from './source-supervisor.ts';
import { createCollector } from './status/collect.ts';
import { exposeStatus } from './status/metrics.ts';
import { scheduleStatus, type StatusParts } from './status/source-status.ts';

interface ServeSourcesOptions {
  settings: Settings;
  version: string;
  clock: Clock;
  log: Logger;
  secrets: string[];
  metrics: Metrics;
}

/** Returns the inbox of a source that receives webhooks. */
type FindInbox = (source: string) => ReceivedInbox;

interface ServedSource {
  supervisor: SourceSupervisor;
  parts: StatusParts;
}

const MAX_PARALLEL_OPENINGS = 3;

/**
 * Prepares all sources, and opens them when `start` is called. The supervisor of a source runs its schedule. On SQLite it
 * does all the work in this process; on Postgres the work goes to a cluster of processes, this one among them. Resolves
 * once deliveries may be stored.
 */
export async function serveSources(options: ServeSourcesOptions) {
  const { settings, version, clock, log, secrets, metrics } = options;
  const sources = Object.values(settings.sources);
  const watched = new Map(sources.map((source) => [source.name, watchSource(source, options, 'debug')]));
  const served = new Map<string, ServedSource>();
  const opening = new PQueue({ concurrency: MAX_PARALLEL_OPENINGS });
  const shared = [...watched.values()].filter(({ source }) => isShared(source));
  const cluster = new Cluster(options, shared);
  let isStopping = false;

  await cluster.ready();

  const collector = createCollector({
    version,
    clock,
    startedAt: clock.now(),
    sources: () => Array.from(served.values(), ({ parts }) => parts),
    refused: settings.refused,
    alerts: () => alerts.status(),
    stopping: () => isStopping,
  });
  const control = createControls({ supervisor: (source) => served.get(source)?.supervisor, clock, log });
  const alerts = new Alerts({
    ...options,
    ...alertSettings(settings),
    snapshot: collector.snapshot,
    sources: () => Array.from(served.values(), ({ supervisor }) => toAlertSource(supervisor)),
  });

  function superviseSource(each: WatchedSource, findInbox: FindInbox): void {
    const { source } = each;
    const inbox = source.webhook === null ? null : findInbox(source.name);
    const supervisor = isShared(source)
      ? cluster.supervise(each, inbox)
      : new SourceSupervisor({ ...each, clock, work: createLocalWork({ ...each, clock, secrets, inbox, opening }) });
    if (!isShared(source)) supervisor.setLeader(true);
    served.set(source.name, { supervisor, parts: statusParts(each, supervisor, inbox, secrets) });
  }

  return {
    ...collector,
    control,
    start: (findInbox: FindInbox): void => {
      for (const each of watched.values()) superviseSource(each, findInbox);
      alerts.start();
    },
    /** Called when deliveries for a source have been stored. */
    wake: (source: string): void => served.get(source)?.supervisor.work.wake(),
    /** Called after each webhook request, with its result and duration. */
    answered: (source: string, result: string, seconds: number): void =>
      watched.get(source)?.activity.webhookAnswered(result, seconds),
    /** Prometheus text. */
    metrics: async (): Promise<string> => {
      exposeStatus(metrics.status, await collector.snapshot());
      return metrics.text();
    },
    /** Finishes or rolls back what is in progress, and closes all sources. */
    stop: async (): Promise<void> => {
      // First, because it stores in warehouses what it has reported.
      await alerts.stop();
      isStopping = true;
      await Promise.all([...Array.from(served.values(), ({ supervisor }) => supervisor.stop()), cluster.stop()]);
    },
  };
}

function statusParts(
  { source, activity }: WatchedSource,
  supervisor: SourceSupervisor,
  inbox: ReceivedInbox | null,
  secrets: readonly string[],
): StatusParts {
  return {
    source,
    activity,
    read: supervisor.read,
    rateLimiter: () => supervisor.work.rateLimiter(),
    schedule: (resource) => scheduleStatus(source.schedule, resource, supervisor.schedule(resource)),
    inbox: inbox && (() => inbox.figures()),
    deliveries: inbox && ((filter) => inbox.list(filter)),
    scrub: (text) => scrubOwn(text, secrets),
  };
}

function toAlertSource(supervisor: SourceSupervisor): AlertSource {
  return { name: supervisor.source.name, isLeader: () => supervisor.isLeader, use: supervisor.read };
}
