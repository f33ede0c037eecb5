// The items of the work queue that processes on one Postgres share: syncs of resources, and the processing of webhook
// deliveries. A process queues an item once, and any process that has the source in its settings works on it.
import { randomUUID } from 'node:crypto';
import type { ExecuteSql } from '../../database/database.ts';
import { sharedDatabase } from '../../database/databases.ts';
import type { TimestampText } from '../../database/own-tables.ts';
import type { SyncCommand } from '../../sync/plan.ts';

/** A sync of one resource; its stored name is `walk`. */
export interface ScanItem {
  kind: 'walk';
  /** The name that `queueName` returns, in all kinds of items. */
  source: string;
  resource: string;
  command: SyncCommand;
  /**
   * The last success when the item was queued (`last_full_at` for a backfill, else `last_success_at`). If a later one is
   * stored by now, another sync has made this one unnecessary. Absent if the sync is wanted in any case.
   */
  seen?: TimestampText | null;
  /** Set if a user requested it: refused credentials and requests are tried again, because the user may have fixed the cause. */
  isAsked?: true;
}

/** The processing of all waiting deliveries of a source. */
interface DrainItem {
  kind: 'drain';
  source: string;
}

export type WorkItem = ScanItem | DrainItem;
export type WorkKind = WorkItem['kind'];
export type ItemOf<Kind extends WorkKind> = Extract<WorkItem, { kind: Kind }>;

/** How one kind of items is queued. */
interface QueuePolicy {
  /** After taking an item, a process pauses this long for each of its items in progress, so that idle processes take the next. */
  spreadMs: number;
  /** An item without a heartbeat for this long goes to another process. */
  heartbeatSeconds: number;
  /** How long the result is stored. */
  deleteAfterSeconds: number;
}

export const QUEUE_POLICIES: Readonly<Record<WorkKind, QueuePolicy>> = {
  walk: { spreadMs: 100, heartbeatSeconds: 20, deleteAfterSeconds: 3_600 },
  drain: { spreadMs: 10, heartbeatSeconds: 10, deleteAfterSeconds: 300 },
};

/** Two items of a kind with the same key are the same work: the second one is not queued. */
export function keyOf(item: WorkItem): string {
  return item.kind === 'walk' ? resourceKey(item.source, item.resource) : item.source;
}

export function resourceKey(source: string, resource: string): string {
  return `${source}/${resource}`;
}

/**
 * Returns the name of a source in the queue: its schema, because the settings of several processes may give different
 * sources the same name, such as one for production and one for a trial.
 */
export function queueName(address: string): string {
  const shared = sharedDatabase(address);
  if (shared === null) throw new Error('only a database that several processes share has a queue');
  return shared.namespace;
}

export interface QueuedItem {
  /** The id of the item that was already queued or in progress with this key, else of the new one. */
  id: string;
  /** True if a process has begun it. */
  isStarted: boolean;
}

/**
 * How an attempt at an item ended. `returned`: the item goes back to the queue, for any process. `unknown_source`: the source
 * is not in the settings of this process, which takes no items of that source from then on.
 */
export type ItemEnd<Result> =
  | { is: 'done'; result: Result }
  | { is: 'returned'; afterMs: number }
  | { is: 'unknown_source' };

/** Works on one item. If the handler throws, the error is logged, and the item returns to the queue for a while. */
export type WorkHandler<Kind extends WorkKind, Result> = (
  item: ItemOf<Kind>,
  signal: AbortSignal,
) => Promise<ItemEnd<Result>>;

/** The schema of pg-boss, which all processes on one database share. */
export const BOSS_SCHEMA = 'content_sync_boss';

/**
 * Inserts into the table of pg-boss, as its documentation allows: its own call would use another connection, but a drain must
 * be queued in the transaction of its delivery. The group is the source, so that a process can ignore unknown sources.
 */
const INSERT = `INSERT INTO ${BOSS_SCHEMA}.job (id, name, data, singleton_key, group_id, policy, retry_limit, retry_delay,
    expire_seconds, deletion_seconds, keep_until, heartbeat_seconds)
  SELECT $1::uuid, q.name, $3::jsonb, $4, $5, q.policy, q.retry_limit, q.retry_delay,
    q.expire_seconds, q.deletion_seconds, now() + q.retention_seconds * interval '1s', q.heartbeat_seconds
  FROM ${BOSS_SCHEMA}.queue q WHERE q.name = $2
  ON CONFLICT DO NOTHING
  RETURNING id`;

/** Queues an item in the caller's transaction. Returns false if the same item is queued or in progress. */
export async function insertItem(item: WorkItem, execute: ExecuteSql, id: string): Promise<boolean> {
  const { kind, ...data } = item;
  const { rows } = await execute(INSERT, [id, kind, JSON.stringify(data), keyOf(item), item.source]);
  return rows.length > 0;
}

/**
 * Queues a drain of a source (by its `queueName`) in the transaction that stores its deliveries, unless one is queued.
 * The queue must have been opened once on this database.
 */
export async function queueDrain(source: string, execute: ExecuteSql): Promise<void> {
  await insertItem({ kind: 'drain', source }, execute, randomUUID());
}
