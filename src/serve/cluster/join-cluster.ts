import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Inbox } from '../../warehouse/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { repeatUntilAborted, waitAtMost } from '../../model/waiting.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { openCoordination, sharedDatabase } from '../../warehouse/databases.ts';
import { Keeper } from '../keeper.ts';
import { queueName } from '../work-items/work-items.ts';
import { ClusterWork } from './cluster-work.ts';
import { queuedWork } from './queued-work.ts';
import type { Controls } from '../controls/create-controls.ts';
import { takeControls } from './take-controls.ts';
import type { ClusterSource } from './open-apps.ts';
import type { Coordination } from '../../warehouse/coordination.ts';
import { messageOf } from '../../model/errors.ts';

interface ClusterOptions {
  /** Only such as `isShared`. */
  sources: readonly ClusterSource[];
  clock: Clock;
  log: Logger;
  secrets: string[];
  /** Walks under way at once in each database; 8 if absent. */
  atOnce?: number;
  /** Does what other processes ask for of sources that this one leads; absent in a process that leads none. */
  follow?: Controls['follow'];
}

/** This process as one of many that work on the same databases. */
export interface Cluster {
  /** Resolves once items can be queued, or after some seconds, so that a server that is away delays no start. */
  ready(): Promise<void>;
  /** Works on one more source from now on. */
  join(source: ClusterSource): void;
  /** Works on a source no more: gives back what is under way on it. Its keeper must be stopped with this, if it has one. */
  leave(source: SourceSettings): Promise<void>;
  /** Closes databases that no source is left in. */
  closeUnused(): Promise<void>;
  /** True if each database answers within some seconds. */
  reachable(): Promise<boolean>;
  /** Keeps a source fresh together with the other processes; queues what is due while this process leads the source. */
  keep(source: ClusterSource, inbox: Pick<Inbox, 'waiting'> | null): Keeper;
  /** Takes the lead of those sources that are kept here and not led by another process. */
  lead(): void;
  /** Gives back work and leads. Must be called together with `stop` of the keepers, and not wait for them. */
  stop(): Promise<void>;
}

const AT_ONCE = 8;
const READY_MS = 5_000;
const REACHED_MS = 3_000;
/** Opening takes many queries: some at a time leave the others their connections. */
const OPENING_AT_ONCE = 4;

/** Shared by the sources in one database. */
interface SharedDatabase {
  /** The warehouse of one of the sources. */
  address: string;
  work: ClusterWork;
  /** By the sources' names in the queue. */
  keepers: Map<string, Keeper>;
  /** What this process leads, by the last renewal. */
  led: ReadonlySet<string>;
  /** Null until this process takes leads. */
  lead: Lead | null;
  controls: ReturnType<typeof takeControls>;
  failed: (error: unknown) => void;
}

/** True if several processes may work on the source. */
export function isShared({ warehouse }: Pick<SourceSettings, 'warehouse'>): boolean {
  return sharedDatabase(warehouse) !== null;
}

/** Takes work from now on. */
export function joinCluster(options: ClusterOptions): Cluster {
  const { clock } = options;
  const databases = new Map<string, SharedDatabase>();
  const opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  let isLeading = false;

  function join(known: ClusterSource): void {
    const id = databaseOf(known.source);
    const database = databases.get(id) ?? openDatabase(options, known.source.warehouse);
    databases.set(id, database);
    database.work.join(known);
  }

  options.sources.forEach(join);
  return {
    join,
    ready: async () => {
      const opened = Array.from(databases.values(), ({ work }) => work.queue.opened);
      await waitAtMost(clock, READY_MS, Promise.all(opened));
    },
    leave: async (source) => {
      const database = databases.get(databaseOf(source));
      const name = queueName(source.warehouse);
      database?.keepers.delete(name);
      await database?.work.leave(name);
    },
    closeUnused: async () => {
      for (const [id, database] of databases) {
        if (!database.work.isEmpty) continue;
        databases.delete(id);
        await closeDatabase(database);
      }
    },
    reachable: async () => {
      const asked = Promise.all(Array.from(databases.values(), ({ work }) => work.queue.probe()));
      return (await waitAtMost(clock, REACHED_MS, asked).catch(() => null)) !== null;
    },
    keep: ({ source, log, watcher }, inbox) => {
      const database = databases.get(databaseOf(source));
      if (database === undefined) throw new Error(`${source.name} is not a source of the cluster`);
      const work = queuedWork({ source, log, watcher, clock, shared: database.work, opening, inbox });
      const keeper = new Keeper({ source, clock, log, work });
      const name = queueName(source.warehouse);
      database.keepers.set(name, keeper);
      keeper.lead(database.led.has(name));
      if (isLeading) database.lead ??= leadOf(database, clock);
      return keeper;
    },
    lead: () => {
      isLeading = true;
      for (const database of databases.values()) database.lead ??= leadOf(database, clock);
    },
    stop: async () => {
      const all = [...databases.values()];
      await Promise.all(all.map(closeDatabase));
    },
  };
}

async function closeDatabase({ work, lead, controls }: SharedDatabase): Promise<void> {
  await Promise.all([work.stop(), lead?.stop(), controls.stop()]);
}

function openDatabase(
  { clock, log, secrets, atOnce = AT_ONCE, follow }: ClusterOptions,
  address: string,
): SharedDatabase {
  const failed = errorLogger(log, clock);
  const work = new ClusterWork({ address, clock, secrets, atOnce, failed });
  const keepers = new Map<string, Keeper>();
  const controls = takeControls({
    address,
    sources: () => work.names,
    clock,
    failed,
    heard: (source, { action }) => {
      if (action === 'retry') void work.retry(source, false);
    },
    leaderOf: (source) => {
      const keeper = keepers.get(source);
      return follow === undefined || keeper?.isLed !== true ? null : { name: keeper.name, follow };
    },
  });
  return { address, work, keepers, led: new Set(), lead: null, controls, failed };
}

function leadOf(database: SharedDatabase, clock: Clock): Lead {
  const { address, keepers, failed } = database;
  const leads = (led: ReadonlySet<string>): void => {
    database.led = led;
    keepers.forEach((keeper, name) => keeper.lead(led.has(name)));
  };
  return keepLead({ address, sources: () => [...keepers.keys()], clock, failed, leads });
}

/** Sources share a database if their addresses differ in the schema only. */
function databaseOf({ warehouse }: SourceSettings): string {
  return sharedDatabase(warehouse)?.id ?? '';
}

interface LeadOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** Those that are to be led just now, if nobody else leads them. */
  sources: () => readonly string[];
  clock: Clock;
  /** Called after every renewal with the sources that this process leads now. */
  leads: (sources: ReadonlySet<string>) => void;
  /** Called with each error; the next renewal tries again. */
  failed: (error: unknown) => void;
}

/** A lead that is not renewed for so long goes to another process. */
const LEAD_MS = 20_000;
const RENEW_MS = 5_000;
/** A lead that was not renewed for so long counts as lost: earlier than another process can take it over. */
const DOUBT_MS = LEAD_MS - RENEW_MS;

const RESIGN_MS = 1_000;

/** The lead of sources, as long as it is kept. */
export interface Lead {
  /** Resigns. Everything that depends on the lead must have ended. */
  stop(): Promise<void>;
}

/** Takes and renews the lead of all those sources that no other process leads. */
export function keepLead(options: LeadOptions): Lead {
  const { address, sources, clock, leads, failed } = options;
  const stopping = new AbortController();
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  let coordination: Coordination | null = null;
  let keptAt = Number.NEGATIVE_INFINITY;
  const renew = async (): Promise<void> => {
    const asked = clock.monotonic();
    coordination ??= await openCoordination(address, clock);
    const led = new Set((await coordination?.lead(sources(), owner, LEAD_MS)) ?? []);
    // An answer that came this late may be out of date already.
    if (clock.monotonic() - asked >= DOUBT_MS) return;
    keptAt = asked;
    leads(led);
  };
  const kept = repeatUntilAborted({ clock, everyMs: RENEW_MS, signal: stopping.signal }, async () => {
    await renew().catch(failed);
    if (clock.monotonic() - keptAt >= DOUBT_MS) leads(new Set());
  });
  return {
    stop: async () => {
      stopping.abort();
      await waitAtMost(clock, RESIGN_MS, kept);
      // If the server is away, the lead expires by itself.
      const resigned = coordination?.resign(owner).catch(() => undefined);
      await waitAtMost(clock, RESIGN_MS, Promise.resolve(resigned));
      await coordination?.close();
    },
  };
}

/** The same error is logged at most this often. */
const TELL_MS = 10_000;

/** Logs an error; the same one, however often it comes, is one line now and then. */
function errorLogger(log: Logger, clock: Clock): (error: unknown) => void {
  const toldAt = new Map<string, number>();
  return (error) => {
    const message = messageOf(error);
    const now = clock.monotonic();
    if (now - (toldAt.get(message) ?? Number.NEGATIVE_INFINITY) < TELL_MS) return;
    if (toldAt.size > 100) toldAt.clear();
    toldAt.set(message, now);
    log.warn({ error }, `work was put off: ${message}`);
  };
}
