// `warehouse copy`: the files of a SQLite source into a Postgres schema, in one transaction.
import Database from 'better-sqlite3';
import { escapeIdentifier as quoted } from 'pg';
import { readAddress } from '../../config/warehouse-address.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { ResourceShape } from '../../model/table.ts';
import type { ExecuteSql } from '../database.ts';
import type { OwnTables } from '../own-tables.ts';
import { INBOX_TABLES, openDatabase, WAREHOUSE_TABLES } from '../postgres/connection/open-database.ts';
import { borrowDatabase } from '../postgres/connection/pools.ts';
import type { Session } from '../postgres/connection/session.ts';
import { type Database as PostgresDatabase, execute, transact } from '../postgres/connection/transact.ts';
import { creationSteps } from '../postgres/widening/grow-tables.ts';
import { databaseError } from '../sqlite/connection/errors.ts';
import { copyTable } from './copy-table.ts';

export interface FilesCopy {
  /** Paths of the SQLite warehouse and, if there is one, of its inbox. */
  files: readonly string[];
  /** Address of a Postgres schema without data. */
  to: string;
  /** The tables of the resources. */
  shapes: readonly ResourceShape[];
  clock: Clock;
  signal: AbortSignal;
  /** Called after each table. */
  onTable: (table: CopiedTable) => void;
}

export interface CopiedTable {
  table: string;
  rows: number;
}

/** For a statement that reads or analyzes a whole table. */
const STATEMENT_TIMEOUT_MS = 600_000;

/**
 * Copies SQLite files to a Postgres schema and compares every value, in one transaction: if it is stopped, the schema has
 * empty internal tables at most. Throws `ConfigError` and `SyncError`.
 */
export async function copyFiles(copy: FilesCopy): Promise<CopiedTable[]> {
  const { to, clock } = copy;
  const target = readAddress(to);
  if (target?.kind !== 'postgres') throw new Error('copy needs an address of Postgres');
  const { database, release } = borrowDatabase(target, clock);
  await using opened = new AsyncDisposableStack();
  opened.defer(release);
  await refuseUsed(execute(database, { retryForMs: 5_000 }), database);
  const { own, close } = await openDatabase<OwnTables>(target, clock, WAREHOUSE_TABLES);
  opened.defer(close);
  const inbox = await openDatabase(target, clock, INBOX_TABLES);
  opened.defer(inbox.close);

  const copyAll = async (session: Session): Promise<CopiedTable[]> => {
    // A process that starts to sync into the schema waits for this lock, and then finds the copy.
    await session.execute('LOCK TABLE "_sync_leases" IN SHARE ROW EXCLUSIVE MODE');
    await refuseUsed(session.execute, database);
    // A table may have its name; it is created again with the other views.
    await session.execute('DROP VIEW IF EXISTS "sync_freshness"');
    const tables = copy.shapes.flatMap((shape) => shape.tables);
    for (const table of tables) await session.runAll(creationSteps(own, database.schema, table, new Set()));
    const copied: CopiedTable[] = [];
    for (const [at, file] of copy.files.entries()) {
      copied.push(...(await copyFile(session, copy, file, at === 0 ? tables.map(({ name }) => name) : [])));
    }
    return copied;
  };
  return await transact(database, copyAll, { statementMs: STATEMENT_TIMEOUT_MS, retryForMs: 0 });
}

/**
 * Internal tables that are not copied: leases belong to running processes, a verification is about its own file, the
 * years of the calendar are determined again, and `_sync_types` is empty.
 */
const NOT_COPIED = /^_sync_(?:leases|verifications|calendar_covers|types|(?:inbox_)?migrations.*)$/;

/** Copies the tables of resources and the internal tables of a file, as of now. */
async function copyFile(
  session: Session,
  { signal, onTable }: FilesCopy,
  file: string,
  tables: readonly string[],
): Promise<CopiedTable[]> {
  const source = new Database(file, { readonly: true });
  try {
    source.exec('BEGIN');
    const internal = `SELECT "name" FROM sqlite_schema WHERE "type" = 'table' AND "name" GLOB '_sync_*'`;
    const names = source.prepare<[], string>(internal).pluck().all();
    const copied: CopiedTable[] = [];
    for (const table of [...tables, ...names.filter((name) => !NOT_COPIED.test(name))]) {
      const rows = await copyTable({ session, source, table, signal });
      copied.push({ table, rows });
      onTable({ table, rows });
    }
    if (names.includes('_sync_deliveries')) await continueNumbers(session, source);
    return copied;
  } catch (error) {
    throw databaseError(error, file);
  } finally {
    source.close();
  }
}

/** The number of a deleted delivery is not used again. */
async function continueNumbers({ execute: run }: Session, source: Database.Database): Promise<void> {
  const last = `SELECT "seq" FROM "sqlite_sequence" WHERE "name" = '_sync_deliveries'`;
  const number = source.prepare<[], number>(last).pluck().get();
  if (number === undefined || number === 0) return;
  await run(`SELECT setval(pg_get_serial_sequence('"_sync_deliveries"', 'seq'), $1)`, [number]);
}

/** Internal tables with rows after the first command that writes, and the view that migrations create. */
const STATE_TABLES = ['_sync_runs', '_sync_checkpoints', '_sync_columns', '_sync_deliveries', '_sync_forgotten'];
const MIGRATED = /^_sync_|^sync_freshness$/;

/** Throws `ConfigError('copy_target_used')` if the schema has tables or views, other than empty internal ones. */
async function refuseUsed(run: ExecuteSql, { schema, shown }: PostgresDatabase): Promise<void> {
  const { rows } = await run<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relkind = ANY('{r,p,v,m,f}')
      AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`,
    [schema],
  );
  const names = new Set(rows.map(({ name }) => name));
  let isUsed = [...names].some((name) => !MIGRATED.test(name));
  for (const table of STATE_TABLES.filter((name) => names.has(name))) {
    isUsed ||= (await run(`SELECT 1 FROM ${quoted(schema)}.${quoted(table)} LIMIT 1`)).rows.length > 0;
  }
  if (!isUsed) return;
  throw new ConfigError('copy_target_used', `${shown} is not empty: nothing was copied`, {
    hint: 'use it if an earlier copy filled it: a schema has tables only if its copy was complete; else name another database or an unused schema, such as postgres://host/database?schema=blog_new',
  });
}
