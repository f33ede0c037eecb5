import Database from 'better-sqlite3';
import { databaseError } from '../sqlite/connection/errors.ts';
import { quoted, type CopiedTable } from './copied-tables.ts';
import type { SourceCell } from './value-kinds.ts';

/** A part of a table that is held in memory at once: a few times that much, and never the table. */
const CHUNK_BYTES = 2 * 1_048_576;
const CHUNK_ROWS = 2_000;

/** A database file as it stood at one moment, whatever is written to it meanwhile. All methods throw `SyncError`. */
export interface Snapshot {
  /** Names of the table's columns; none if there is no such table. */
  columns(table: string): string[];
  /**
   * The next rows in the order of the key, those behind the key `after`; none at the end. A table without a key comes
   * whole.
   */
  read(table: CopiedTable, columns: readonly string[], after: readonly SourceCell[] | null): SourceCell[][];
  /** The highest number that the table has given to a row of its own, even if that row is gone; 0 if none. */
  lastNumber(table: string): number;
  close(): void;
}

/** Begins to read a file; until it is closed, everything is read as of now. Throws `ConfigError`. */
export function openSnapshot(file: string): Snapshot {
  return translated(file, () => {
    const db = new Database(file, { readonly: true });
    db.exec('BEGIN');
    // The moment is that of the first read.
    db.prepare('SELECT 1 FROM sqlite_schema').get();
    return {
      columns: (table) =>
        translated(file, () =>
          db.prepare<[string], string>('SELECT "name" FROM pragma_table_info(?)').pluck().all(table),
        ),
      read: (table, columns, after) => translated(file, () => readChunk(db, table, columns, after)),
      lastNumber: (table) =>
        translated(file, () => {
          const last = db.prepare<[string], number>('SELECT "seq" FROM "sqlite_sequence" WHERE "name" = ?');
          return last.pluck().get(table) ?? 0;
        }),
      close: () => void db.close(),
    };
  });
}

function readChunk(
  db: Database.Database,
  table: CopiedTable,
  columns: readonly string[],
  after: readonly SourceCell[] | null,
): SourceCell[][] {
  const rows: SourceCell[][] = [];
  const hasKey = table.key.length > 0;
  if (!hasKey && after !== null) return rows;
  let bytes = 0;
  const statement = db.prepare<SourceCell[], SourceCell[]>(chunkText(table, columns, after !== null));
  for (const row of statement
    .raw()
    .safeIntegers()
    .iterate(...(after ?? []))) {
    rows.push(row);
    for (const cell of row) bytes += typeof cell === 'string' || Buffer.isBuffer(cell) ? cell.length : 8;
    if (hasKey && (bytes >= CHUNK_BYTES || rows.length >= CHUNK_ROWS)) break;
  }
  return rows;
}

function chunkText({ name, key, where }: CopiedTable, columns: readonly string[], isBehind: boolean): string {
  const keys = key.map(quoted).join(', ');
  const behind = isBehind ? [`(${keys}) > (${key.map(() => '?').join(', ')})`] : [];
  const conditions = [...(where === undefined ? [] : [where]), ...behind];
  const filter = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  const order = key.length === 0 ? '' : ` ORDER BY ${keys}`;
  return `SELECT ${columns.map(quoted).join(', ')} FROM ${quoted(name)}${filter}${order}`;
}

function translated<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw databaseError(error, file);
  }
}
