import { createHash } from 'node:crypto';
import type Database from 'better-sqlite3';

/** The copied tables and their versions: whatever a run that finds nothing new must leave alone, byte by byte. */
export function dumpCopy(db: Database.Database): Record<string, string> {
  const tables = db
    .prepare<[], string>(
      `SELECT DISTINCT table_name AS name FROM _sync_columns UNION SELECT '_sync_versions' ORDER BY name`,
    )
    .pluck()
    .all();
  return Object.fromEntries(tables.map((name) => [name, digest(db, name)]));
}

/** Every cell of every row, bookkeeping columns included, in key order. */
function digest(db: Database.Database, table: string): string {
  const hash = createHash('sha256');
  const rows = db.prepare<[], unknown[]>(`SELECT * FROM "${table}" ORDER BY 1, 2, 3`).raw().safeIntegers().iterate();
  let count = 0;
  for (const row of rows) {
    count += 1;
    hash.update(JSON.stringify(row, (_key, cell: unknown) => (typeof cell === 'bigint' ? `${cell}n` : cell)));
  }
  return `${count} rows ${hash.digest('hex').slice(0, 16)}`;
}
