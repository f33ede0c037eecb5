import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { SourceActivity } from '../observe/activity.ts';
import type { Metrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { TickSource } from '../trigger/schedule/scheduler.ts';
import type { ClusterSource } from './cluster/cluster-work.ts';
import { type Cluster, isShared } from './cluster/join-cluster.ts';
import { createTableReader, type SourceTables } from './dictionary/table-reader.ts';
import { Keeper } from './keeper.ts';
import { LocalWork } from './local-work.ts';
import type { ReceivedInbox } from './received-inbox.ts';
import { logWalks, sourceWatcher } from './source-watcher.ts';
import type { StatusParts } from './status/source-status.ts';

export interface ServedSourceOptions {
  clock: Clock;
  log: Logger;
  secrets: string[];
  metrics: Metrics;
}

/** What the sources share that this process keeps alone. */
export interface SharedByLocal {
  opening: PQueue;
  ticks: TickSource;
}

/** A source before it is kept. */
export interface PreparedSource extends ClusterSource {
  activity: SourceActivity;
}

/** A source that is kept fresh, until its settings change or it is taken out. */
export interface ServedSource extends PreparedSource {
  keeper: Keeper;
  /** As the status reads it. */
  parts: StatusParts;
  tables: () => Promise<SourceTables>;
}

/** `activity` goes on where the source had other settings before; `keeper` returns the one that keeps it now. */
export function prepareSource(
  { clock, log, metrics }: ServedSourceOptions,
  source: SourceSettings,
  keeper: () => Keeper | undefined,
  activity = new SourceActivity(source.name, clock, metrics),
): PreparedSource {
  const own = log.child({ source: source.name });
  const allowed = (): number | null => keeper()?.governor()?.allowedPerSecond ?? null;
  return { source, activity, log: own, watcher: sourceWatcher(activity, logWalks(own, clock, 'debug'), allowed) };
}

/** Keeps a source from now on; `inbox` is null if it receives no webhooks. */
export function keepSource(
  options: ServedSourceOptions,
  prepared: PreparedSource,
  inbox: ReceivedInbox | null,
  { cluster, local }: { cluster: Cluster; local: SharedByLocal },
): ServedSource {
  const keeper = isShared(prepared.source)
    ? cluster.keep(prepared, inbox)
    : keepAlone(options, prepared, { inbox, ...local });
  const parts = statusParts(options, prepared, keeper, inbox);
  return { ...prepared, keeper, parts, tables: createTableReader(parts, options.clock) };
}

function keepAlone(
  { clock, secrets }: ServedSourceOptions,
  { source, log, watcher }: PreparedSource,
  own: SharedByLocal & { inbox: ReceivedInbox | null },
): Keeper {
  const work = new LocalWork({ source, clock, log, secrets, watcher, ...own });
  const keeper = new Keeper({ source, clock, log, work });
  keeper.lead(true);
  return keeper;
}

function statusParts(
  { secrets }: ServedSourceOptions,
  { source, activity }: PreparedSource,
  keeper: Keeper,
  inbox: ReceivedInbox | null,
): StatusParts {
  const { timezone, resources, ...usual } = source.schedule;
  return {
    source,
    activity,
    read: keeper.read,
    governor: () => keeper.governor(),
    schedule: (resource) => {
      const figures = keeper.schedule().find((each) => each.resource === resource);
      const moments = { next_at: figures?.nextAt ?? null, overdue_at: figures?.overdueAt ?? null };
      const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
      return { incremental, full, timezone, ...moments };
    },
    inbox: inbox === null ? null : () => inbox.figures(),
    deliveries: inbox === null ? null : (filter) => inbox.list(filter),
    scrub: (text) => scrubOwn(text, secrets),
  };
}
