import type { TimestampText } from './own-tables.ts';

/** A record that is gone from the service. */
export interface GoneRecord {
  key: string;
  /** When the service was asked: a row that was written later stays. Becomes `_synced_at`. */
  confirmedAt: TimestampText;
  /** The service's own time of the delete, which becomes `_deleted_at`; `confirmedAt` does if it is absent or null. */
  deletedAt?: TimestampText | null;
}
