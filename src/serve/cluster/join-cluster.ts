import type { Inbox } from '../../warehouse/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { untilAborted, waitAtMost } from '../../model/waiting.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { resourcesToErase } from '../../state/forget-requests.ts';
import { readPauses } from '../../state/pauses.ts';
import { releasedResources } from '../../state/suspects.ts';
import { openWarehouse, sharedDatabase } from '../../warehouse/databases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { type SourceWork, Keeper } from '../keeper.ts';
import { queueName } from '../work-items/work-items.ts';
import { askWalk, newWalk } from './ask-walk.ts';
import { ClusterWork } from './cluster-work.ts';
import { successOf } from './do-walk.ts';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { messageOf } from '../../model/errors.ts';
import type { Controls } from '../controls/create-controls.ts';
import { takeControls } from './take-controls.ts';
import { keepLead, type Lead } from './lead.ts';
import type { ClusterSource } from './open-apps.ts';

export interface ClusterOptions {
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
/** The same error is logged at most this often. */
const TELL_MS = 10_000;

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
      for (const [id, { work, lead, controls }] of databases) {
        if (!work.isEmpty) continue;
        databases.delete(id);
        await Promise.all([work.stop(), lead?.stop(), controls.stop()]);
      }
    },
    reachable: async () => {
      const asked = Promise.all(Array.from(databases.values(), ({ work }) => work.queue.probe()));
      return (await waitAtMost(clock, REACHED_MS, asked).catch(() => null)) !== null;
    },
    keep: ({ source, log }, inbox) => {
      const database = databases.get(databaseOf(source));
      if (database === undefined) throw new Error(`${source.name} is not a source of the cluster`);
      const work = queuedWork({ source, clock, shared: database.work, opening, inbox });
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
      await Promise.all(all.flatMap(({ work, lead, controls }) => [work.stop(), lead?.stop(), controls.stop()]));
    },
  };
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
      if (action === 'retry') work.retry(source);
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

interface QueuedWorkOptions {
  source: SourceSettings;
  clock: Clock;
  /** The work of all sources on the same database. */
  shared: ClusterWork;
  /** Opens warehouses, some at a time: hundreds of sources may start together. */
  opening: { add<T>(work: () => Promise<T>): Promise<T> };
  /** Null if no webhooks are received. */
  inbox: Pick<Inbox, 'waiting'> | null;
}

/** The work on a source is queued by the process that leads it, and done by any process of the cluster. */
function queuedWork({ source, clock, shared, opening, inbox }: QueuedWorkOptions): SourceWork {
  const { queue } = shared;
  const name = queueName(source.warehouse);
  /** Queues what waits without an item, such as deliveries that are due to be tried again. */
  const queueWaiting = async ({ own }: Warehouse): Promise<void> => {
    const waiting = new Set([...(await releasedResources(own)), ...(await resourcesToErase(own))]);
    for (const resource of waiting) await queue.put({ kind: 'settle', source: name, resource });
    const [first] = (await inbox?.waiting(0, timestampText(clock.now()), 1)) ?? [];
    if (first !== undefined) await queue.put({ kind: 'drain', source: name });
  };
  return {
    upkeepMs: 20_000,
    // Hundreds of sources need no common beat: each looks when something is due, and now and then.
    ticks: () => ({ stop: () => undefined }),
    governor: () => shared.apps.peek(name)?.governor.figures() ?? null,
    wake: () => shared.wake(name),
    retry: () => shared.retry(name),
    pausesChanged: async () => {
      shared.lookAgain(name);
      await queue.put({ kind: 'drain', source: name });
    },
    open: async (opened, stopping) => {
      const warehouse = await opening.add(() => {
        stopping.throwIfAborted();
        return openWarehouse(source.warehouse, clock);
      });
      opened.defer(() => warehouse.close());
      return {
        read: (work) => work(warehouse),
        nameState: () => warehouse.nameState(),
        checkpoints: (resource) => readCheckpoint(warehouse.own, resource),
        isPaused: async (resource) => (await readPauses(warehouse.own)).has(resource),
        walk: (resource, command, signal, cause) => {
          const item = { kind: 'walk', source: name, resource, command } as const;
          if (cause.is === 'asked') return newWalk(queue, item, clock, signal);
          return askWalk(queue, { ...item, seen: successOf(command, cause.stored) }, signal);
        },
        startDrain: () => null,
        upkeep: [() => queueWaiting(warehouse)],
        untilReopening: untilAborted,
      };
    },
  };
}
