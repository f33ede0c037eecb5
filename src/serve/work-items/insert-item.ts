import { randomUUID } from 'node:crypto';
import type { ExecuteSql } from '../../warehouse/database.ts';
import { keyOf, type WorkItem } from './work-items.ts';

/** The engine's own schema; all processes on one database share it. */
export const BOSS_SCHEMA = 'content_sync_boss';

/**
 * The engine documents its table for such inserts. In SQL of ours, because the engine's own call asks for a pool first,
 * and a delivery's item must be part of the delivery's transaction. An item that is there already is not written. The group is
 * the source, so that a process can leave those alone that it does not know.
 */
const INSERT = `INSERT INTO ${BOSS_SCHEMA}.job (id, name, data, singleton_key, group_id, policy, retry_limit, retry_delay,
    expire_seconds, deletion_seconds, keep_until, heartbeat_seconds)
  SELECT $1::uuid, q.name, $3::jsonb, $4, $5, q.policy, q.retry_limit, q.retry_delay,
    q.expire_seconds, q.deletion_seconds, now() + q.retention_seconds * interval '1s', q.heartbeat_seconds
  FROM ${BOSS_SCHEMA}.queue q WHERE q.name = $2
  ON CONFLICT DO NOTHING
  RETURNING id`;

/** Queues an item in the caller's transaction. Returns its id, or null if the same item is queued or under way. */
export async function insertItem(
  item: WorkItem,
  execute: ExecuteSql,
  id: string = randomUUID(),
): Promise<string | null> {
  const { kind, ...data } = item;
  const { rows } = await execute(INSERT, [id, kind, JSON.stringify(data), keyOf(item), item.source]);
  return rows.length === 0 ? null : id;
}

/**
 * Queues a drain of a source (by its `queueName`) in the transaction that stores its deliveries. Writes nothing if one is
 * queued already. The queue must have been opened once on this database.
 */
export async function askDrain(source: string, execute: ExecuteSql): Promise<void> {
  await insertItem({ kind: 'drain', source }, execute);
}
