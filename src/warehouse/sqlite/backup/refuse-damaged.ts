import type { Database } from 'better-sqlite3';
import { ConfigError } from '../../../model/errors.ts';

/** Throws `ConfigError('warehouse_corrupt')` unless pages, rows and indexes of the database fit together. */
export function refuseDamaged(db: Database, shown: string): void {
  const faults = db.prepare<[], string>('PRAGMA integrity_check(1)').pluck().all();
  const first = faults.find((fault) => fault !== 'ok');
  if (first === undefined) return;
  throw new ConfigError('warehouse_corrupt', `${shown}: the database is damaged: ${first}`, {
    hint: 'take a backup from before, or move the file away and copy everything again: content-sync backfill',
  });
}
