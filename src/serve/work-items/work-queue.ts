import type { ItemOf, WorkItem, WorkKind } from './work-items.ts';

/** The item in the queue after a `put`. */
export interface QueuedItem {
  id: string;
  /** False if the same item was queued or under way already; then this is that one. */
  isNew: boolean;
  /** True if a process has begun it. */
  isUnderWay: boolean;
}

/**
 * How an attempt at an item ended: `done`, with its result; `back` in the queue, for any process; or `foreign`, because
 * the source is not in this process's settings, which takes no items of that source from then on.
 */
export type WorkEnd<Result> = { is: 'done'; result: Result } | { is: 'back'; afterMs: number } | { is: 'foreign' };

/** Does one item. If it throws, the error is logged, and the item goes back for a while. */
export type WorkHandler<Kind extends WorkKind, Result> = (
  item: ItemOf<Kind>,
  /** Aborted when the process is to end, or when the item has gone to another one. */
  signal: AbortSignal,
) => Promise<WorkEnd<Result>>;

/** The work of all processes on one database. All methods throw `SyncError`. */
export interface WorkQueue {
  /** Resolves once items can be queued; rejects when the queue is closed before. */
  readonly opened: Promise<void>;
  /** Queues an item, or finds the same one. */
  put(item: WorkItem): Promise<QueuedItem>;
  /** Resolves with the result of an item once any process has done it; null if the result is not known any more. */
  outcome(id: string, signal: AbortSignal): Promise<unknown>;
  /** Those of the keys whose item was given back just now and is about to be taken again. */
  comingBack(kind: WorkKind, keys: readonly string[]): Promise<Set<string>>;
  /** Takes items of a kind from now on, at most so many at once. */
  work<Kind extends WorkKind>(kind: Kind, atOnce: number, handler: WorkHandler<Kind, unknown>): void;
  /** Looks for items of a kind now. */
  wake(kind: WorkKind): void;
  /** Gives back the items under way, and closes. */
  close(): Promise<void>;
}
