import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { ConfigError } from '../../../model/errors.ts';

/** Up to here the whole file is checked at every start (some 40 ms); beyond it only what decides what is fetched. */
const CHECK_WHOLE_BYTES = 64 * 1_048_576;
const STATE_TABLES = [
  '_sync_checkpoints',
  '_sync_columns',
  '_sync_leases',
  '_sync_limits',
  '_sync_rejects',
  '_sync_runs',
];

/** Throws `ConfigError('warehouse_corrupt')` where the pages of the file do not make a database; before any write. */
export function checkFile(db: Database, file: string): void {
  const isSmall = statSync(file).size <= CHECK_WHOLE_BYTES;
  const faults = isSmall ? quickCheck(db, null) : stateTables(db).flatMap((table) => quickCheck(db, table));
  const [first] = faults;
  if (first === undefined) return;
  throw new ConfigError('warehouse_corrupt', `${file}: the database is damaged: ${first}`, {
    hint: 'restore a backup of it, or move it away and copy everything again: content-sync backfill',
  });
}

function quickCheck(db: Database, table: string | null): string[] {
  const name = table === null ? '' : `('${table}')`;
  const lines = db.prepare<[], string>(`PRAGMA quick_check${name}`).pluck().all();
  return lines.filter((line) => line !== 'ok');
}

function stateTables(db: Database): string[] {
  const there = new Set(db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all());
  return STATE_TABLES.filter((table) => there.has(table));
}
