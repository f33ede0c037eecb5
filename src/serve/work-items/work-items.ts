import { sharedDatabase } from '../../warehouse/databases.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { TimestampText } from '../../warehouse/own-tables.ts';

/** One resource is to be walked. */
export interface WalkItem {
  kind: 'walk';
  /** As `queueName` has it, in all kinds of items. */
  source: string;
  resource: string;
  command: SyncCommand;
  /**
   * The stored success that made it due (`last_full_at` for a backfill, else `last_success_at`): where another one
   * stands there by now, somebody has walked since, and nothing is left to do. Absent where a walk is wanted anyway.
   */
  seen?: TimestampText | null;
}

/** Deliveries of a source wait in its inbox. */
export interface DrainItem {
  kind: 'drain';
  source: string;
}

/** A person has released deletes of a resource. */
export interface SettleItem {
  kind: 'settle';
  source: string;
  resource: string;
}

/** Work that any process may do which has the source in its settings. */
export type WorkItem = WalkItem | DrainItem | SettleItem;
export type WorkKind = WorkItem['kind'];
export type ItemOf<Kind extends WorkKind> = Extract<WorkItem, { kind: Kind }>;

/** How one kind of items is handed out; times in seconds, as the engine takes them. */
interface KindOfWork {
  /** `exclusive`: of one key one item is queued or under way, and a second one is not taken in. */
  policy: 'exclusive';
  /** How often a process asks for items, where nobody wakes it. */
  pollMs: number;
  /** After taking one it waits so long for each that it has in hand, so that idle processes take the next ones. */
  spreadMs: number;
  /** An item whose worker has not been heard of for so long goes to another one. */
  heartbeatSeconds: number;
  /** How long what became of it can be asked for. */
  deleteAfterSeconds: number;
}

export const WORK_KINDS: Readonly<Record<WorkKind, KindOfWork>> = {
  walk: { policy: 'exclusive', pollMs: 1_000, spreadMs: 100, heartbeatSeconds: 20, deleteAfterSeconds: 3_600 },
  drain: { policy: 'exclusive', pollMs: 1_000, spreadMs: 10, heartbeatSeconds: 20, deleteAfterSeconds: 300 },
  settle: { policy: 'exclusive', pollMs: 5_000, spreadMs: 100, heartbeatSeconds: 20, deleteAfterSeconds: 300 },
};

/** In the order in which they are asked for. */
export const KINDS_OF_WORK: readonly WorkKind[] = ['walk', 'drain', 'settle'];

/** Two items of a kind with the same key are the same work. */
export function keyOf(item: WorkItem): string {
  return 'resource' in item ? resourceKey(item.source, item.resource) : item.source;
}

export function resourceKey(source: string, resource: string): string {
  return `${source}/${resource}`;
}

/**
 * What a source is called in the queue: its schema, which belongs to one source of the database alone. Configs of
 * several processes may call different sources by the same name, as one for production and one for a trial do.
 */
export function queueName(address: string): string {
  const shared = sharedDatabase(address);
  if (shared === null) throw new Error('no queue is kept where one process does all the work');
  return shared.namespace;
}
