import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { queueName } from '../work-items/queue-name.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import { connectionName, postgresPlace } from '../../warehouse/postgres/connection/address.ts';
import type { SourceKeeper } from '../source-keeper.ts';
import { keepLead, type Lead } from './lead.ts';
import { keepWithOthers, type TogetherKeeper } from './keep-with-others.ts';
import type { ClusterSource } from './open-apps.ts';
import { startClusterWork, type ClusterWork } from './cluster-work.ts';

export interface ClusterOptions {
  /** Only such as are on Postgres. */
  sources: readonly ClusterSource[];
  clock: Clock;
  log: Logger;
  secrets: string[];
  /** Walks under way at once, for each database; 8 where absent. */
  atOnce?: number;
}

/** This process as one of many that work on the same databases. */
export interface Cluster {
  /** Resolves once items can be queued, or after some seconds: a server that is away keeps nobody from starting. */
  ready(): Promise<void>;
  /** Keeps a source fresh together with the others: asks for what is due once this process leads it. */
  keep(worked: ClusterSource, inbox: Pick<Inbox, 'waiting'> | null): SourceKeeper;
  /** Takes the lead of what is kept and nobody else leads. */
  lead(): void;
  /** Gives back work and leads; whoever keeps a source stops it beside. */
  stop(): Promise<void>;
}

const AT_ONCE = 8;
const READY_MS = 5_000;
/** Opening asks much at once: some at a time leave the others their connections. */
const OPENING_AT_ONCE = 4;
/** A server that is away is told of now and then. */
const TELL_MS = 10_000;

/** What is shared by the sources of one database. */
interface Place {
  address: string;
  working: ClusterWork;
  /** By the sources' names in the queue. */
  keepers: Map<string, TogetherKeeper>;
  failed: (error: unknown) => void;
}

export function isOnPostgres({ warehouse }: Pick<SourceSettings, 'warehouse'>): boolean {
  return warehouse.startsWith('postgres:');
}

/** Takes work from now on. */
export function joinCluster(options: ClusterOptions): Cluster {
  const { clock } = options;
  const places = placesOf(options);
  const opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  let leads: Lead[] = [];
  return {
    ready: async () => {
      const patience = new AbortController();
      const opened = Promise.all(Array.from(places.values(), ({ working }) => working.queue.opened));
      await Promise.race([opened, clock.sleep(READY_MS, patience.signal).catch(() => undefined)]);
      patience.abort();
    },
    keep: ({ source, log }, inbox) => {
      const place = places.get(databaseOf(source));
      if (place === undefined) throw new Error(`${source.name} is no source of the team`);
      const keeper = keepWithOthers({ source, log, clock, inbox, opening, working: place.working });
      place.keepers.set(queueName(source.warehouse), keeper);
      return keeper;
    },
    lead: () => {
      leads = Array.from(places.values(), ({ address, keepers, failed }) => {
        const told = (led: ReadonlySet<string>): void => keepers.forEach((keeper, name) => keeper.lead(led.has(name)));
        return keepLead({ address, sources: [...keepers.keys()], clock, failed, leads: told });
      });
    },
    stop: async () => {
      const ended = Array.from(places.values(), ({ working }) => working.stop());
      await Promise.all([...ended, ...leads.map((lead) => lead.stop())]);
    },
  };
}

function placesOf({ sources, clock, log, secrets, atOnce = AT_ONCE }: ClusterOptions): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const [database, worked] of Map.groupBy(sources, ({ source }) => databaseOf(source))) {
    const [first] = worked;
    if (first === undefined) continue;
    const { warehouse: address } = first.source;
    const failed = tellerOf(log, clock);
    const byName = new Map(worked.map((each) => [queueName(each.source.warehouse), each]));
    const working = startClusterWork({ address, sources: byName, clock, secrets, atOnce, failed });
    places.set(database, { address, working, keepers: new Map(), failed });
  }
  return places;
}

/** Sources whose addresses differ in their schema alone share a database. */
function databaseOf({ warehouse }: SourceSettings): string {
  return connectionName(postgresPlace(warehouse.replace(/^postgres:/, '')).connection);
}

/** The same trouble, seen from everywhere, is one line now and then. */
function tellerOf(log: Logger, clock: Clock): (error: unknown) => void {
  const toldAt = new Map<string, number>();
  return (error) => {
    const message = messageOf(error);
    const now = clock.monotonic();
    if (now - (toldAt.get(message) ?? Number.NEGATIVE_INFINITY) < TELL_MS) return;
    if (toldAt.size > 100) toldAt.clear();
    toldAt.set(message, now);
    log.warn({ err: error }, `work was put off: ${message}`);
  };
}
