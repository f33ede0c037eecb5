import type { Clock } from '../../model/clock.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { Expectation, RefetchOutcome } from '../../sync/refetch.ts';
import type { Inbox } from '../../database/inbox.ts';
import type { EventRules } from './read-delivery.ts';

/** `walked`: served by a scan of the resource. `put off`: tried again later. */
export type DrainOutcome = RefetchOutcome | 'walked' | 'ignored' | 'dead' | 'put off';

/** Deliveries for one record or resource that ended together. */
export interface DrainEvent {
  /** Null if a delivery concerns no synced resource. */
  resource: string | null;
  outcome: DrainOutcome;
  deliveries: number;
  /** Milliseconds since the first of them was received. */
  delayMs: number;
}

/** Must not throw. */
interface DrainWatcher {
  settled(event: DrainEvent): void;
  /** Called for every error; the deliveries are tried again. */
  failed(error: unknown, at: { resource: string; key: string } | null): void;
}

export interface DrainOptions extends EventRules {
  inbox: Pick<Inbox, 'waiting' | 'settle'>;
  /** Resolves once all rows that were written survive a power cut. */
  persist: () => Promise<void>;
  /** Texts that are removed from settlements; may grow. */
  secrets: readonly string[];
  refetch: (resource: string, key: string, expected: Expectation) => Promise<RefetchOutcome>;
  /** Starts an incremental (`sync`) or full (`backfill`) scan; resolves if it ended well or `partial`, else throws. */
  walk: (resource: string, command: SyncCommand) => Promise<void>;
  clock: Clock;
  /** Failed readings caused by the record before a delivery is dead. */
  attempts: number;
  /** Milliseconds after which a delivery is dead although only the service or the warehouse could not be reached. */
  keepMs: number;
  /** Maximum number of records that are read in parallel. */
  concurrency: number;
  /** Maximum number of deliveries in memory, 20,000 if absent; the others stay in the inbox. */
  mostInProgress?: number;
  /** Returns false if another process works on deliveries for these resources. */
  concerns?: (resources: readonly string[]) => boolean;
  /** Interval in which the inbox is read without `wake`; 2 s if absent. */
  pollMs?: number;
  watcher: DrainWatcher;
}

export interface DrainFigures {
  /** Deliveries in memory, those that are left included. */
  inProgress: number;
  /** Deliveries that are left to another process or until a pause ends. */
  left: number;
}

/** Turns stored deliveries into rows until it is stopped. */
export interface Drain {
  /** Called when new deliveries are in the inbox. */
  wake(): void;
  /** Ends all waits after errors, and reads all waiting deliveries. */
  retry(): void;
  figures(): DrainFigures;
  /** Starts nothing more, and waits a bounded time for what is in progress. */
  stop(): Promise<void>;
}
