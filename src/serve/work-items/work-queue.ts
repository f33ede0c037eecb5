import type { ItemOf, WorkItem, WorkKind } from './work-items.ts';

/** What stands in the queue after an item was put there. */
export interface QueuedItem {
  id: string;
  /** False where the same was queued or under way already: then it is that one. */
  isNew: boolean;
  /** Whether somebody has begun it. */
  isUnderWay: boolean;
}

/**
 * What came of an attempt: it is `done`, with what is to be told of it; it goes `back`, for whoever is next; or it is
 * `foreign`, because its source is not in this process's settings, which takes nothing of that source from then on.
 */
export type WorkEnd<Result> = { is: 'done'; result: Result } | { is: 'back'; afterMs: number } | { is: 'foreign' };

/** Does one item. What it throws is told, and the item goes back for a while. */
export type WorkHandler<Kind extends WorkKind, Result> = (
  item: ItemOf<Kind>,
  /** Aborted when the process is to end, or when the item has gone to another one. */
  signal: AbortSignal,
) => Promise<WorkEnd<Result>>;

/** The work of all processes on one database. All methods throw `SyncError`. */
export interface WorkQueue {
  /** Resolves once items can be queued; rejects when the queue is closed before. */
  readonly opened: Promise<void>;
  /** Queues an item, or finds the same. */
  put(item: WorkItem): Promise<QueuedItem>;
  /** Waits until an item has been done, whoever does it, and says what came of it; null where nobody knows any more. */
  outcome(id: string, signal: AbortSignal): Promise<unknown>;
  /** Of these keys the ones whose item was given back just now, and is about to be taken again. */
  comingBack(kind: WorkKind, keys: readonly string[]): Promise<Set<string>>;
  /** Takes items of a kind from now on, at most so many at once. */
  work<Kind extends WorkKind>(kind: Kind, atOnce: number, handler: WorkHandler<Kind, unknown>): void;
  /** Looks for items of a kind now. */
  wake(kind: WorkKind): void;
  /** Gives back what is in hand, and closes. */
  close(): Promise<void>;
}
