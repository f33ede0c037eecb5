import type { Logger } from 'pino';
import type { AttemptEvent } from '../http/client.ts';
import { SourceActivity } from '../observe/activity.ts';
import { lostLines } from '../observe/log-stream.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub/scrub.ts';
import type { RefusedSource, ServeSettings, SourceSettings } from '../settings/settings.ts';
import type { RunWatcher } from '../sync/run-options.ts';
import { NAMED } from '../warehouse/name-state.ts';
import { inboxAddress } from '../warehouse/open-inbox.ts';
import { createDoor } from '../web/door.ts';
import { createPages } from '../web/pages.ts';
import type { ReceiverFigures, SourceFigures } from '../web/receiver/figures.ts';
import type { ReceiverNote } from '../web/receiver/calls.ts';
import type { ReceivedSource } from '../web/receiver/setup.ts';
import { startReceiver, type Receiver } from '../web/receiver/start-receiver.ts';
import { createCollector, type Collector, type StatusParts } from '../serve/status/collect.ts';
import { exposeStatus } from '../serve/status/metrics.ts';
import { activityWatcher, noteDelivered } from '../serve/status/watcher.ts';
import type { CliContext } from './context.ts';
import { keepSource } from '../serve/keep-source.ts';
import { logWalks } from '../serve/log-walks.ts';
import { namedSources, readSettings, tellRefused } from './open-sources.ts';
import { exposedFiles, serveWarnings } from '../serve/serve-warnings.ts';
import type { KeeperWatcher, SourceKeeper } from '../serve/source-keeper.ts';
import type { SourceOptions } from './source-options.ts';
import type { ClusterSource } from '../serve/cluster/open-apps.ts';
import { isOnPostgres, joinCluster, type Cluster } from '../serve/cluster/join-cluster.ts';

export interface ServeOptions extends SourceOptions {
  host?: string;
  port?: number;
}

/** A running service: its sources are kept fresh, and its pages and webhooks answered. */
export interface Serving {
  /** `http://127.0.0.1:8080`. */
  url: string;
  log: Logger;
  /** Rejects when it cannot go on; never resolves. */
  failed: Promise<never>;
  /** Finishes or rolls back what is in hand, and ends. */
  stop(): Promise<void>;
}

/** One source with all that belongs to it. */
interface Served extends Prepared {
  keeper: SourceKeeper;
}

/** A source before anything is opened. */
interface Prepared extends ClusterSource {
  activity: SourceActivity;
}

/** Starts it. Throws `ConfigError` where settings, address or inbox cannot be used, before any request goes out. */
export async function startServing(context: CliContext, options: ServeOptions): Promise<Serving> {
  const settings = readSettings(context, options);
  const sources = namedSources(settings, options.source);
  await tellRefused(context, settings, options.source);
  const level = options.logLevel ?? settings.log.level;
  const log = createLog({ level, secrets: context.secrets, destination: context.stderr });
  const startedAt = context.clock.now();
  const metrics = createMetrics(context.version, () => lostLines(context.stderr));
  const refused = options.source === undefined ? settings.refused : [];
  const parts = { context, startedAt, log, metrics, refused, served: new Map<string, Served>() };
  const state = { isStopping: false };
  const address = { ...settings.serve, host: options.host ?? settings.serve.host };
  const serve = { ...address, port: options.port ?? settings.serve.port };
  const warnings = [...serveWarnings(serve, sources, startedAt), ...exposedFiles(settings)];
  for (const { message, ...about } of warnings) log.warn(about, message);
  const prepared = sources.map((source) => prepare(parts, source));
  const shared = prepared.filter(({ source }) => isOnPostgres(source));
  const team = joinCluster({ sources: shared, clock: context.clock, log, secrets: context.secrets });
  // Before the receiver: what it stores is asked for in the same moment.
  await team.ready();
  // The collector asks the sources when a page is asked for: by then they are there.
  const collector = lazily(() => collectorOf(parts, () => state.isStopping, receiver));
  const receiver: Receiver = await receiverFor(parts, serve, sources, collector).catch(async (error: unknown) => {
    await team.stop();
    throw error;
  });
  for (const each of prepared) parts.served.set(each.source.name, serveSource(parts, each, receiver, team));
  team.lead();
  return {
    url: receiver.url,
    log,
    failed: receiver.failed,
    stop: async () => {
      state.isStopping = true;
      await Promise.all([...Array.from(parts.served.values(), ({ keeper }) => keeper.stop()), team.stop()]);
      await receiver.close();
      parts.metrics.close();
    },
  };
}

interface ServingParts {
  context: CliContext;
  /** Epoch milliseconds. */
  startedAt: number;
  log: Logger;
  metrics: Metrics;
  refused: readonly RefusedSource[];
  /** By name, in the order of the settings. */
  served: Map<string, Served>;
}

function prepare({ context, log, metrics, served }: ServingParts, source: SourceSettings): Prepared {
  const { clock } = context;
  const activity = new SourceActivity(source.name, clock, metrics);
  const own = log.child({ source: source.name });
  const allowed = (): number | null => served.get(source.name)?.keeper.governor()?.allowedPerSecond ?? null;
  return { source, activity, log: own, watcher: watcherFor(activity, logWalks(own, clock, 'debug'), allowed) };
}

function serveSource({ context }: ServingParts, prepared: Prepared, receiver: Receiver, team: Cluster): Served {
  const { clock, secrets } = context;
  const { source, log, watcher } = prepared;
  const inbox = source.webhook === null ? null : receiver.inbox(source.name);
  const keeper = isOnPostgres(source)
    ? team.keep(prepared, inbox)
    : keepSource({ source, clock, log, secrets, inbox, watcher });
  return { ...prepared, keeper };
}

function watcherFor(activity: SourceActivity, logged: RunWatcher, allowed: () => number | null): KeeperWatcher {
  const counted = activityWatcher(activity);
  return {
    started: (...told) => {
      counted.started(...told);
      logged.started(...told);
    },
    page: (...told) => {
      counted.page(...told);
      logged.page(...told);
    },
    ended: (...told) => {
      counted.ended(...told);
      logged.ended(...told);
    },
    attempted: (event: AttemptEvent) => activity.attempted(event, allowed()),
    settled: (event) => noteDelivered(activity, event),
  };
}

function receiverFor(
  parts: ServingParts,
  serve: ServeSettings,
  sources: readonly SourceSettings[],
  collector: () => Collector,
): Promise<Receiver> {
  const { context, log, metrics, served } = parts;
  return startReceiver({
    serve,
    clock: context.clock,
    secrets: context.secrets,
    sources: sources.flatMap(receivedSource),
    pages: createPages({
      snapshot: () => collector().snapshot(),
      ready: () => collector().ready(),
      metrics: async () => {
        exposeStatus(metrics.status, await collector().snapshot());
        return metrics.text();
      },
      door: doorFor(parts, serve),
      failed: (error) => log.error({ err: error }, 'a page could not be made'),
    }),
    onArrival: (source) => served.get(source)?.keeper.wake(),
    onFigures: (figures) => noteFigures(parts, figures),
    onNote: (note) => noteReceiver(log, note),
  });
}

function doorFor({ context, log, metrics }: ServingParts, { auth, host, hosts }: ServeSettings) {
  const refused = (lately: number): void => {
    metrics.pageRefused();
    // Few lines, however many guesses: the 1st, 2nd, 4th, 8th and so on.
    if (Number.isInteger(Math.log2(lately))) log.warn({ lately }, 'a wrong name or password was sent for the page');
  };
  return createDoor({ access: auth ?? null, hosts: [...hosts, host], clock: context.clock, refused });
}

function receivedSource({ name, webhook, profile, warehouse }: SourceSettings): ReceivedSource[] {
  if (webhook === null) return [];
  const asks = isOnPostgres({ warehouse }) ? 'workers' : 'nobody';
  return [{ name, webhook, profile: profile.webhooks, inbox: inboxAddress(warehouse), asks }];
}

function noteFigures({ served, metrics }: ServingParts, { sources }: ReceiverFigures): void {
  for (const [source, figures] of Object.entries(sources)) {
    served.get(source)?.activity.receiverTotals({ stored: figures.stored, refused: refusals(figures) });
    metrics.status.webhooks(source, figures);
  }
}

function refusals({ refused }: SourceFigures): number {
  return Object.values(refused).reduce((sum, count) => sum + count, 0);
}

function noteReceiver(log: Logger, { level, event, ...rest }: ReceiverNote): void {
  log[level](rest, event);
}

function collectorOf(
  { context, startedAt, served, refused }: ServingParts,
  stopping: () => boolean,
  receiver: Receiver,
): Collector {
  const sources = [...served.values()].map((each) => statusParts(context, each, receiver));
  const { version, clock } = context;
  return createCollector({ version, clock, startedAt, sources, refused, stopping });
}

function statusParts({ secrets }: CliContext, { source, activity, keeper }: Served, receiver: Receiver): StatusParts {
  const { timezone, resources, ...usual } = source.schedule;
  const inbox = source.webhook === null ? null : receiver.inbox(source.name);
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

function lazily<T>(make: () => T): () => T {
  let made: { it: T } | null = null;
  return () => (made ??= { it: make() }).it;
}
