import Database from 'better-sqlite3';
import { escapeIdentifier as quoted } from 'pg';
import { databaseError } from '../sqlite/connection/errors.ts';

/** A cell as SQLite returns it, integers as bigint. */
export type SourceCell = string | number | bigint | Buffer | null;

/** The rows that are in memory at a time. */
const CHUNK_BYTES = 2 * 1_048_576;
const CHUNK_ROWS = 2_000;

/**
 * Internal tables that are not copied: leases belong to running processes, a verification is about its own file, the
 * years of the calendar are determined again, and `_sync_types` is empty.
 */
const NOT_COPIED = /^_sync_(?:leases|verifications|calendar_covers|types|(?:inbox_)?migrations.*)$/;

/** Rows that are copied, for tables of which not all are: deliveries that are done are not processed again. */
const FILTERS: Readonly<Record<string, string>> = {
  _sync_deliveries: `WHERE "state" IN ('waiting', 'dead')`,
};

interface SourceColumn {
  name: string;
  isKey: boolean;
}

/** A SQLite file, read as of the time when it was opened. All methods throw `SyncError`. */
export interface SourceFile {
  /** Names of the internal tables that are copied. */
  ownTables(): string[];
  columns(table: string): SourceColumn[];
  chunks(table: string, columns: readonly string[]): Iterable<SourceCell[][]>;
  /** The highest number that AUTOINCREMENT has given to a row of the table, deleted rows included; 0 if none. */
  lastNumber(table: string): number;
  close(): void;
}

/** Opens a file and begins a read transaction, which ends when it is closed. Throws `ConfigError`. */
export function openSourceFile(file: string): SourceFile {
  return withSqliteErrors(file, () => {
    const db = new Database(file, { readonly: true });
    db.exec('BEGIN');
    // SQLite takes the snapshot with the first read.
    db.prepare('SELECT 1 FROM sqlite_schema').get();
    const list = <Row>(text: string, ...values: string[]): Row[] =>
      withSqliteErrors(file, () => db.prepare<string[], Row>(text).all(...values));
    return {
      ownTables: () =>
        list<{ name: string }>(`SELECT "name" FROM sqlite_schema WHERE "type" = 'table' AND "name" GLOB '_sync_*'`)
          .map(({ name }) => name)
          .filter((name) => !NOT_COPIED.test(name)),
      columns: (table) =>
        list<{ name: string; pk: number }>('SELECT "name", "pk" FROM pragma_table_info(?)', table).map(
          ({ name, pk }) => ({ name, isKey: pk > 0 }),
        ),
      chunks: (table, columns) => readChunks(db, file, table, columns),
      lastNumber: (table) =>
        list<{ seq: number }>('SELECT "seq" FROM "sqlite_sequence" WHERE "name" = ?', table)[0]?.seq ?? 0,
      close: () => void db.close(),
    };
  });
}

function* readChunks(
  db: Database.Database,
  file: string,
  table: string,
  columns: readonly string[],
): Generator<SourceCell[][]> {
  const text = `SELECT ${columns.map(quoted).join(', ')} FROM ${quoted(table)} ${FILTERS[table] ?? ''}`;
  const statement = withSqliteErrors(file, () => db.prepare<[], SourceCell[]>(text).raw().safeIntegers());
  let [rows, bytes]: [SourceCell[][], number] = [[], 0];
  try {
    for (const row of statement.iterate()) {
      rows.push(row);
      for (const cell of row) bytes += typeof cell === 'string' || Buffer.isBuffer(cell) ? cell.length : 8;
      if (bytes < CHUNK_BYTES && rows.length < CHUNK_ROWS) continue;
      yield rows;
      [rows, bytes] = [[], 0];
    }
  } catch (error) {
    throw databaseError(error, file);
  }
  if (rows.length > 0) yield rows;
}

function withSqliteErrors<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw databaseError(error, file);
  }
}
