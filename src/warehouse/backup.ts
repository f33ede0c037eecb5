import type { Clock } from '../model/clock.ts';

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
}

export interface RestoreReport extends Pick<BackupReport, 'takenAt'> {
  /** Deliveries that were acknowledged after the backup: they wait to be worked on again. Null if they could not be read. */
  deliveries: number | null;
}
