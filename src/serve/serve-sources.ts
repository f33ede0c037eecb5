import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { SourceActivity } from '../observe/activity.ts';
import type { Metrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub/scrub.ts';
import type { WebhookAnswers } from '../observe/status-gauges.ts';
import type { RefusedSource, SourceSettings } from '../settings/settings.ts';
import { NAMED } from '../warehouse/name-state.ts';
import type { AlertSource } from './alerts/alert-memory.ts';
import { createAlerts, type Alerts, type AlertSettings } from './alerts/alerts.ts';
import { isShared, joinCluster, type Cluster } from './cluster/join-cluster.ts';
import type { ClusterSource } from './cluster/open-apps.ts';
import { Keeper } from './keeper.ts';
import { LocalWork } from './local-work.ts';
import type { ReceivedInbox } from './received-inbox.ts';
import { logWalks, sourceWatcher } from './source-watcher.ts';
import { createTableReader, type SourceTables } from './dictionary/table-reader.ts';
import { createCollector, type Collector } from './status/collect.ts';
import { exposeStatus } from './status/metrics.ts';
import type { StatusParts } from './status/source-status.ts';

export interface ServeSourcesOptions {
  sources: readonly SourceSettings[];
  /** Sources that are left out because their settings cannot be used. */
  refused: readonly RefusedSource[];
  /** Of content-sync. */
  version: string;
  clock: Clock;
  log: Logger;
  secrets: string[];
  metrics: Metrics;
  /** Who is told when something is wrong; nobody if absent. */
  alerts?: AlertSettings;
}

/** The sources that a process keeps fresh, as the part sees them that listens for deliveries and page requests. */
export interface ServedSources extends Collector {
  /** Starts to keep all sources fresh; `inboxOf` returns the inbox of a source that receives webhooks. */
  start(inboxOf: (source: string) => ReceivedInbox): void;
  /** Called when deliveries for a source have been stored. */
  wake(source: string): void;
  /** Called with everything that a receiver has answered for a source since it started. */
  received(source: string, answers: WebhookAnswers): void;
  /** What each source's warehouse holds. Does not throw, and waits some seconds at most. */
  tables(): Promise<SourceTables[]>;
  /** Tells people what goes wrong. */
  readonly alerts: Alerts;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** Finishes or rolls back what is under way, and closes all sources. */
  stop(): Promise<void>;
}

/** A source before it is opened. */
interface Prepared extends ClusterSource {
  activity: SourceActivity;
}

/**
 * The engine of `serve`: each source gets a keeper (`keeper.ts`), which runs the schedule and, on SQLite, does all the
 * work in this process; on Postgres the work goes to a cluster of processes, this one among them. Resolves once
 * deliveries may be stored; opens no source before `start`.
 */
export async function serveSources(options: ServeSourcesOptions): Promise<ServedSources> {
  const { version, clock, log, secrets, metrics, refused } = options;
  const startedAt = clock.now();
  const keepers = new Map<string, Keeper>();
  const prepared = options.sources.map((source) => prepare(options, source, () => keepers.get(source.name)));
  const shared = prepared.filter(({ source }) => isShared(source));
  const cluster = joinCluster({ sources: shared, clock, log, secrets });
  // Storing a delivery queues the work on it in the same transaction.
  await cluster.ready();
  const activities = new Map(prepared.map(({ source, activity }) => [source.name, activity]));
  let isStopping = false;
  let collector: Collector | null = null;
  let tables: ReturnType<typeof createTableReader>[] = [];
  const collected = (): Collector => {
    if (collector === null) throw new Error('the sources are not kept yet');
    return collector;
  };
  const told = (): AlertSource[] => Array.from(keepers, ([name, keeper]) => alertSource(name, keeper));
  const telling = { clock, log, secrets, metrics, snapshot: () => collected().snapshot(), sources: told };
  const alerts = createAlerts({ ...(options.alerts ?? NOBODY), ...telling });
  return {
    alerts,
    start: (inboxOf) => {
      const sources = prepared.map((each) => {
        const inbox = each.source.webhook === null ? null : inboxOf(each.source.name);
        const keeper = keep(options, each, inbox, cluster);
        keepers.set(each.source.name, keeper);
        return statusParts(options, each, keeper, inbox);
      });
      const process = { version, clock, startedAt, stopping: () => isStopping, alerts: () => alerts.status() };
      collector = createCollector({ ...process, sources, refused });
      tables = sources.map((parts) => createTableReader(parts, clock));
      cluster.lead();
      alerts.start();
    },
    wake: (source) => keepers.get(source)?.wake(),
    received: (source, answers) => {
      const refusals = Object.values(answers.refused).reduce((sum, count) => sum + count, 0);
      activities.get(source)?.receiverTotals({ stored: answers.stored, refused: refusals });
      metrics.status.webhooks(source, answers);
    },
    snapshot: () => collected().snapshot(),
    ready: () => collected().ready(),
    tables: () => Promise.all(tables.map((read) => read())),
    metrics: async () => {
      exposeStatus(metrics.status, await collected().snapshot());
      return metrics.text();
    },
    stop: async () => {
      isStopping = true;
      // First, because it remembers in warehouses that are still open what it has told.
      await alerts.stop();
      await Promise.all([...Array.from(keepers.values(), (keeper) => keeper.stop()), cluster.stop()]);
    },
  };
}

const NOBODY: AlertSettings = { channels: {}, publicUrl: null };

function alertSource(name: string, keeper: Keeper): AlertSource {
  return { name, isLed: () => keeper.isLed, warehouse: () => keeper.warehouse() };
}

function prepare(
  { clock, log, metrics }: ServeSourcesOptions,
  source: SourceSettings,
  keeper: () => Keeper | undefined,
): Prepared {
  const activity = new SourceActivity(source.name, clock, metrics);
  const own = log.child({ source: source.name });
  const allowed = (): number | null => keeper()?.governor()?.allowedPerSecond ?? null;
  return { source, activity, log: own, watcher: sourceWatcher(activity, logWalks(own, clock, 'debug'), allowed) };
}

function keep(
  { clock, secrets }: ServeSourcesOptions,
  { source, log, watcher }: Prepared,
  inbox: ReceivedInbox | null,
  cluster: Cluster,
): Keeper {
  if (isShared(source)) return cluster.keep({ source, log, watcher }, inbox);
  const work = new LocalWork({ source, clock, log, secrets, inbox, watcher });
  const keeper = new Keeper({ source, clock, log, work });
  keeper.lead(true);
  return keeper;
}

function statusParts(
  { secrets }: ServeSourcesOptions,
  { source, activity }: Prepared,
  keeper: Keeper,
  inbox: ReceivedInbox | null,
): StatusParts {
  const { timezone, resources, ...usual } = source.schedule;
  return {
    source,
    activity,
    warehouse: () => keeper.warehouse(),
    governor: () => keeper.governor(),
    schedule: (resource) => {
      const figures = keeper.schedule().find((each) => each.resource === resource);
      const moments = { next_at: figures?.nextAt ?? null, overdue_at: figures?.overdueAt ?? null };
      const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
      return { incremental, full, timezone, ...moments };
    },
    inbox: inbox === null ? null : () => inbox.figures(),
    names: () => [keeper.nameState(), inbox?.nameState() ?? NAMED],
    scrub: (text) => scrubOwn(text, secrets),
  };
}
