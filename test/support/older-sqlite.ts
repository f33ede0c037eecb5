import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import Database from 'better-sqlite3';
import { tempFolder } from './temp-warehouse.ts';

/** One row, cell by cell: the type that SQLite has stored and the value. */
export type TypedRow = readonly unknown[];

/** A database file opened by one version of SQLite. */
export interface VersionedFile {
  version: string;
  /** All rows of a query, with the storage class of each of its columns. */
  rows(query: string): TypedRow[];
  close(): void;
}

/** The part of sql.js that reads a file. */
interface SqlJsDatabase {
  prepare(query: string): { step(): boolean; get(): unknown[]; free(): boolean };
  close(): void;
}

type SqlJs = (options: { wasmBinary: Buffer }) => Promise<{ Database: new (file: Uint8Array) => SqlJsDatabase }>;

/** npm aliases of sql.js. Of its releases these have the oldest SQLite with JSON, the first with `->`, and the last with text JSON. */
export const OLDER_SQLITE = ['sqljs-335', 'sqljs-338', 'sqljs-344'] as const;

const require = createRequire(import.meta.url);

/** Opens a copy of the file, without a write-ahead log, which sql.js cannot read. */
export async function openWith(packageName: string, file: string): Promise<VersionedFile> {
  const copy = path.join(tempFolder(), 'copy.db');
  const writer = new Database(file, { timeout: 5_000 });
  writer.prepare('VACUUM INTO ?').run(copy);
  writer.close();
  const load: SqlJs = require(packageName);
  const wasmBinary = readFileSync(path.join(path.dirname(require.resolve(packageName)), 'sql-wasm.wasm'));
  const { Database: OlderDatabase } = await load({ wasmBinary });
  const db = new OlderDatabase(readFileSync(copy));
  const rows = (query: string): unknown[][] => {
    const statement = db.prepare(query);
    const found: unknown[][] = [];
    while (statement.step()) found.push(statement.get().map(asBuffer));
    statement.free();
    return found;
  };
  return { version: String(rows('SELECT sqlite_version()')[0]?.[0]), rows, close: () => db.close() };
}

/** The same with the SQLite that content-sync itself uses. */
export function openWithNewest(file: string): VersionedFile {
  const db = new Database(file, { readonly: true, timeout: 5_000 });
  const rows = (query: string): unknown[][] => db.prepare<[], unknown[]>(query).raw().all();
  return { version: String(rows('SELECT sqlite_version()')[0]?.[0]), rows, close: () => db.close() };
}

function asBuffer(value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value) : value;
}
