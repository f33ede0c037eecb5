import type { Clock } from '../../model/clock.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { Expectation, RefetchOutcome } from '../../sync/refetch.ts';
import type { Inbox } from '../../database/inbox.ts';
import type { EventRules } from './read-event.ts';

/** How deliveries ended: by their record, by their resource as a whole, or by themselves. */
export type DrainOutcome = RefetchOutcome | 'walked' | 'ignored' | 'dead' | 'put off';

/** Some deliveries for one record or resource that came to an end together. */
export interface DrainEvent {
  /** Null if a delivery concerns none of ours. */
  resource: string | null;
  outcome: DrainOutcome;
  deliveries: number;
  /** Milliseconds since the first of them was received. */
  delayMs: number;
}

/** Must not throw. */
export interface DrainWatcher {
  settled(event: DrainEvent): void;
  /** Called for every error; nothing is lost by it, the deliveries are tried again. */
  failed(error: unknown, at: { resource: string; key: string } | null): void;
}

export interface DrainOptions extends EventRules {
  inbox: Pick<Inbox, 'waiting' | 'settle'>;
  /** Resolves once the rows that were written so far survive a power cut. */
  persist: () => Promise<void>;
  /** Texts that no settlement may hold; may grow. */
  secrets: readonly string[];
  /** Reads a record again (`sync/refetch.ts`). */
  refetch: (resource: string, key: string, expected: Expectation) => Promise<RefetchOutcome>;
  /**
   * Runs a walk that begins now, `sync` for what has changed, `backfill` for a whole one; resolves once it has ended
   * well, `partial` included, else throws.
   */
  walk: (resource: string, command: SyncCommand) => Promise<void>;
  clock: Clock;
  /** Failed readings that are the record's own fault before a delivery is dead. */
  attempts: number;
  /** Milliseconds after which a delivery is dead although only the service or the warehouse could not be reached. */
  keepMs: number;
  /** Readings under way at once. */
  concurrency: number;
  /** Deliveries in progress at once, 20,000 if absent; further ones stay in the inbox until there is room. */
  mostInProgress?: number;
  /**
   * Returns true if this process works on a delivery for these resources (none if it is about no resource of ours); the
   * others are left to another process. All of them if absent.
   */
  concerns?: (resources: readonly string[]) => boolean;
  /** How often the whole inbox is scanned without a call of `wake`; 2 s if absent. */
  pollMs?: number;
  watcher: DrainWatcher;
  /** 0 up to 1, for jitter. */
  random?: () => number;
}

export interface DrainFigures {
  /** Deliveries that are being worked on, and readings and walks under way for them. */
  inProgress: number;
  /** Of those, the ones that are left to another process; they are looked at again later. */
  left: number;
  reading: number;
  walking: number;
}

/** Turns stored deliveries into rows, as long as it runs. */
export interface Drain {
  /** New deliveries are in the inbox. */
  wake(): void;
  /** Leaves nothing alone any more that failed, or was left to others, and looks through all that waits. */
  retry(): void;
  figures(): DrainFigures;
  /** Begins nothing more and waits, for a bounded time, for what is under way; what is left waits in the inbox. */
  stop(): Promise<void>;
}
