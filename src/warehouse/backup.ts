import type { Clock } from '../model/clock.ts';
import type { Inbox } from './inbox.ts';
import type { ForgottenRow } from './operator-rows.ts';
import type { Warehouse } from './warehouse.ts';

export interface BackupRequest {
  /** The file to write; one that is there is replaced at the end, if it is a backup itself. */
  to: string;
  /** Name of the source. */
  source: string;
  /** Of content-sync. */
  version: string;
  clock: Clock;
  signal: AbortSignal;
}

export interface BackupReport {
  /** The moment as of which warehouse and inbox are in it, epoch milliseconds. */
  takenAt: number;
  /** Of the file. */
  bytes: number;
  hasInbox: boolean;
}

export interface RestoreRequest extends Pick<BackupRequest, 'source' | 'clock' | 'signal'> {
  /** A file that a backup has written. */
  from: string;
  /**
   * Called before the restored files take their places, if the warehouse that is replaced knows of erased records: has
   * the restored one know of them too. Returns how many of them are in it, and are to be erased again. Nothing is
   * restored if it throws.
   */
  carryForgotten(restored: RestoredParts, forgotten: readonly ForgottenRow[]): Promise<number>;
}

/** What is to take the place of a source's files, open and up to date. */
export interface RestoredParts {
  warehouse: Warehouse;
  /** Null if there is none. */
  inbox: Inbox | null;
}

export interface RestoreReport extends Pick<BackupReport, 'takenAt'> {
  /** Deliveries that were acknowledged after the backup: they wait to be worked on again. Null if they could not be read. */
  deliveries: number | null;
  /**
   * Records that were erased after the backup and are in it: to be erased again. Null if the warehouse that is replaced
   * is gone or could not be read.
   */
  forgotten: number | null;
}
