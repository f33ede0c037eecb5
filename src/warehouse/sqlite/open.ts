import { mkdirSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { Kysely, SqliteDialect, sql, type CompiledQuery } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError, messageOf } from '../../model/errors.ts';
import type { ShapeChange, TableShape } from '../../model/table.ts';
import { migrate } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { LeaseProof, StoredRow, Warehouse } from '../warehouse.ts';
import { addColumn, createTable, widenColumn } from './ddl.ts';
import { isBusy, sqliteError } from './errors.ts';
import { createPageWriter } from './page-writer.ts';

/** How long one attempt may stall the event loop for another process's lock, and how long we keep trying. */
const BUSY_TIMEOUT_MS = 250;
const BUSY_PATIENCE_MS = 60_000;

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` where it cannot be used. */
export async function openSqlite(file: string, clock: Clock): Promise<Warehouse> {
  const db = openFile(file);
  const own = new Kysely<OwnTables>({ dialect: new SqliteDialect({ database: db }) });
  const locked = <T>(work: () => T): Promise<T> => whenFree(db, clock, file, work);
  try {
    await migrateLocked(db, own, clock, file);
  } catch (error) {
    db.close();
    throw sqliteError(error, file);
  }
  return sqliteWarehouse(db, own, locked);
}

type Locked = <T>(work: () => T) => Promise<T>;

function sqliteWarehouse(db: Database.Database, own: Kysely<OwnTables>, locked: Locked): Warehouse {
  const writer = createPageWriter(db, own);
  const lookups = new WeakMap<TableShape, { updated: string | null; statement: Database.Statement }>();
  const statements = new Map<string, Database.Statement>();

  function lookup(table: TableShape, updated: string | null): Database.Statement {
    const known = lookups.get(table);
    if (known?.updated === updated) return known.statement;
    const statement = db.prepare(lookupText(own, table, updated)).raw();
    lookups.set(table, { updated, statement });
    return statement;
  }

  function runAll(queries: readonly CompiledQuery[]): void {
    for (const query of queries) {
      let statement = statements.get(query.sql);
      if (statement === undefined) statements.set(query.sql, (statement = db.prepare(query.sql)));
      statement.run(...query.parameters);
    }
  }

  return {
    own,
    stored: (table, keys, updated) => Promise.resolve(readStored(lookup(table, updated), keys)),
    storedBody: async (resource, id, version) => {
      const row = await own
        .selectFrom('_sync_versions')
        .select('body')
        .where('resource', '=', resource)
        .where('id', '=', id)
        .where('version', '=', version)
        .executeTakeFirst();
      return row?.body ?? null;
    },
    evolve: (shape, changes, remembered) =>
      locked(() => {
        for (const table of shape.tables) runOnce(db, createTable(own, table));
        for (const change of changes) runOnce(db, ...alterations(db, own, change));
        runAll(remembered);
      }),
    commit: (page) =>
      locked(() => {
        checkLease(db, page.lease);
        writer.write(page);
        runAll(page.statements);
      }),
    apply: (queries, lease) =>
      locked(() => {
        if (lease !== undefined) checkLease(db, lease);
        runAll(queries);
      }),
    count: async (table) => {
      if (db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) === undefined) return 0;
      const { rows } = await sql<{ n: number }>`SELECT count(*) AS n FROM ${sql.id(table)}`.execute(own);
      return rows[0]?.n ?? 0;
    },
    close: () => own.destroy(),
  };
}

/** One read transaction around all lookups of a page: entering one costs as much as the lookup itself. */
function readStored(statement: Database.Statement, keys: readonly string[]): Map<string, StoredRow> {
  const found = new Map<string, StoredRow>();
  const read = statement.database.transaction(() => {
    for (const key of keys) {
      const row = statement.get(key) as [string, number, string, StoredRow['updated']] | undefined;
      if (row !== undefined) found.set(key, { hash: row[0], version: row[1], syncedAt: row[2], updated: row[3] });
    }
  });
  read.deferred();
  return found;
}

function openFile(file: string): Database.Database {
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    const db = new Database(file, { timeout: BUSY_TIMEOUT_MS });
    // Larger pages make wide rows cheaper; they only take effect on a file that is still empty.
    db.pragma('page_size = 16384');
    db.pragma('journal_mode = WAL');
    // A power cut may take the last pages, together with their checkpoint: they are fetched again.
    db.pragma('synchronous = NORMAL');
    db.pragma('cache_size = -8000');
    db.pragma('journal_size_limit = 67108864');
    return db;
  } catch (error) {
    const known = sqliteError(error, file);
    if (known !== error) throw known;
    throw new ConfigError('warehouse_unreachable', `${file}: ${messageOf(error)}`, {
      hint: 'check the path in `warehouse` and that this user may write there',
      cause: error,
    });
  }
}

async function migrateLocked(db: Database.Database, own: Kysely<OwnTables>, clock: Clock, file: string): Promise<void> {
  // One write transaction around all steps: two processes that start together migrate one after the other.
  await patiently(clock, () => db.exec('BEGIN IMMEDIATE'));
  try {
    await migrate(own, file);
    db.exec('COMMIT');
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Runs `work` in a write transaction, waiting for other processes without stalling the event loop for long. */
async function whenFree<T>(db: Database.Database, clock: Clock, file: string, work: () => T): Promise<T> {
  // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
  const transaction = db.transaction(work).immediate;
  try {
    return await patiently(clock, () => transaction());
  } catch (error) {
    throw sqliteError(error, file);
  }
}

async function patiently<T>(clock: Clock, work: () => T): Promise<T> {
  const deadline = clock.monotonic() + BUSY_PATIENCE_MS;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || clock.monotonic() > deadline) throw error;
      await clock.sleep(50);
    }
  }
}

function checkLease(db: Database.Database, lease: LeaseProof): void {
  const { changes } = db
    .prepare('UPDATE "_sync_leases" SET "expires_at" = ? WHERE "name" = ? AND "token" = ?')
    .run(lease.expiresAt, lease.name, lease.token);
  if (changes === 0) {
    throw new SyncError('lease_lost', `another process has taken over ${lease.name}; nothing of this page was written`, {
      recovery: 'stop',
      hint: 'let the other process finish: it goes on from the last committed page',
    });
  }
}

function lookupText(own: Kysely<OwnTables>, table: TableShape, updated: string | null): string {
  const last = updated === null ? sql`NULL` : sql.id(updated);
  return sql`SELECT "_hash", "_version", "_synced_at", ${last} FROM ${sql.id(table.name)}
    WHERE ${sql.id(table.key[0] ?? '')} = ${sql.val('')}`.compile(own).sql;
}

function alterations(db: Database.Database, own: Kysely<OwnTables>, change: ShapeChange): CompiledQuery[] {
  if (change.from !== null) return widenColumn(own, { ...change, from: change.from });
  const there = db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?').get(change.table, change.column.name);
  return there === undefined ? [addColumn(own, change.table, change.column)] : [];
}

function runOnce(db: Database.Database, ...queries: CompiledQuery[]): void {
  for (const query of queries) db.prepare(query.sql).run(...query.parameters);
}
