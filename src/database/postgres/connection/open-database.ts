// Opens the schema of a source in Postgres (`openDatabase`): checks the server and the rights, and migrates internal tables.
// Hundreds of sources may be opened at once, by processes of different versions. Also removes erased rows from the files of
// tables (`cleanTables`), where Postgres keeps deleted rows until a VACUUM.
import { CompiledQuery, Kysely, sql } from 'kysely';
import { escapeIdentifier as quoted } from 'pg';
import type { MigrationDialect } from '../../../../migrations/dialect.ts';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import type { ExecuteSql } from '../../database.ts';
import { INBOX_MIGRATIONS, isUpToDate, migrate, type Migrations, WAREHOUSE_MIGRATIONS } from '../../migrate.ts';
import type { PostgresAddress } from '../address.ts';
import { findDependents, inUseError, refuseOthersViews } from '../widening/dependents.ts';
import { ownDialect, sessionDialect } from './own-dialect.ts';
import { borrowDatabase } from './pools.ts';
import { hideInternalTables, refuseMissingRights, refuseUnsafeObjects } from './schema-rights.ts';
import { onlyRow } from './session.ts';
import { COMMIT_MARKS, COMMON_SCHEMA, execute, FORGET_OLD_MARKS, type PostgresSchema, transact } from './transact.ts';

/** Enough for a server that is just starting. A server that does not answer by then is an error of the settings. */
export const OPEN_TIMEOUT_MS = 5_000;
/** Postgres 13: older versions are no longer maintained. */
const MIN_SERVER_VERSION = 130_000;
const MIGRATION_TIMEOUT_MS = 600_000;

/** One source's schema: reachable, verified and migrated. */
export interface OpenDatabase<Tables> {
  database: PostgresSchema;
  /** Single statements on internal tables in the schema. */
  own: Kysely<Tables>;
  close: () => Promise<void>;
}

/** A set of internal tables that are migrated together. */
export interface TableSet {
  migrations: Migrations;
  /** The table that lists the applied migrations. */
  table: string;
}

export const WAREHOUSE_TABLES: TableSet = { migrations: WAREHOUSE_MIGRATIONS, table: '_sync_migrations' };
/** In the same schema as the warehouse. */
export const INBOX_TABLES: TableSet = { migrations: INBOX_MIGRATIONS, table: '_sync_inbox_migrations' };

/** Opens the schema of an address, and creates or migrates it. Throws `ConfigError` if it cannot be used. */
export async function openDatabase<Tables>(
  address: PostgresAddress,
  clock: Clock,
  tables: TableSet,
): Promise<OpenDatabase<Tables>> {
  const { database, release } = borrowDatabase(address, clock);
  try {
    await checkServer(database);
    await prepareCommitMarks(database);
    await migrateSchema(database, tables);
  } catch (error) {
    await release();
    throw error;
  }
  const own = new Kysely<Tables>({ dialect: ownDialect(database) }).withSchema(database.schema);
  return { database, own, close: release };
}

interface ServerFacts {
  version: number;
  encoding: string;
  datestyle: string;
  strings: string;
}

const FACTS = `SELECT current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding,
  current_setting('DateStyle') AS datestyle, current_setting('standard_conforming_strings') AS strings`;

/** Throws `ConfigError` if the server's version or settings cannot be used. */
export async function checkServer(database: PostgresSchema): Promise<void> {
  const { shown } = database;
  const facts = onlyRow(await execute(database, { retryForMs: OPEN_TIMEOUT_MS })<ServerFacts>(FACTS));
  if (facts.version < MIN_SERVER_VERSION) {
    throw new ConfigError('warehouse_unusable', `${shown}: Postgres 13 or later is needed`, {
      hint: 'upgrade the server, or use a SQLite warehouse',
    });
  }
  if (facts.encoding !== 'UTF8') {
    throw new ConfigError('warehouse_unusable', `${shown}: the database is encoded in ${facts.encoding}, not UTF8`, {
      hint: "make one for it: CREATE DATABASE content ENCODING 'UTF8' TEMPLATE template0",
    });
  }
  if (facts.datestyle.startsWith('ISO') && facts.strings === 'on') return;
  throw new ConfigError('warehouse_unusable', `${shown}: DateStyle must be ISO and standard_conforming_strings on`, {
    hint: "ALTER ROLE ... SET datestyle TO 'ISO'; ALTER ROLE ... SET standard_conforming_strings TO on",
  });
}

/** Creates the table of commit marks, which every transaction of any schema writes, and removes old ones. */
async function prepareCommitMarks(database: PostgresSchema): Promise<void> {
  await migrateSchema({ ...database, schema: COMMON_SCHEMA }, COMMIT_MARKS);
  await execute(database, { retryForMs: OPEN_TIMEOUT_MS })(FORGET_OLD_MARKS);
}

/** Waits until an older version has written its page: its next page finds that the tables were migrated. */
const WAIT_FOR_PAGES = `DO $$ BEGIN IF to_regclass('_sync_leases') IS NOT NULL THEN
  LOCK TABLE "_sync_leases" IN SHARE ROW EXCLUSIVE MODE; END IF; END $$`;

async function migrateSchema(database: PostgresSchema, tables: TableSet): Promise<void> {
  const { schema, shown } = database;
  const run = execute(database, { retryForMs: OPEN_TIMEOUT_MS });
  await refuseUnsafeObjects(run, database);
  // Usually nothing is to be done: that is found out without a lock, because hundreds of sources may start together.
  const applied = await readAppliedMigrations(database, tables);
  if (applied !== null && isUpToDate(shown, applied, tables.migrations)) return;
  await refuseMissingRights(run, database);
  await transact(
    database,
    async (session) => {
      // One lock for all schemas: a concurrent CREATE SCHEMA can fail in spite of IF NOT EXISTS.
      await session.execute("SELECT pg_advisory_xact_lock(hashtext('content-sync migrations'))");
      const existing = await session.execute('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
      if (existing.rowCount === 0) await session.execute(`CREATE SCHEMA ${quoted(schema)}`);
      else {
        // Another role may have created it since the check above.
        await refuseUnsafeObjects(session.execute, database);
        await session.execute(WAIT_FOR_PAGES);
      }
      const own = new Kysely({ dialect: sessionDialect(session) });
      await migrate(own, { ...tables, dialect: MIGRATION_DIALECT, shown });
      await hideInternalTables(session, schema);
    },
    { retryForMs: OPEN_TIMEOUT_MS, mayRepeat: true, statementMs: MIGRATION_TIMEOUT_MS, lockMs: MIGRATION_TIMEOUT_MS },
  );
}

/** Not true if the role may not use the schema. */
const HAS_TABLE = `SELECT bool_or(CASE WHEN has_schema_privilege(oid, 'USAGE') THEN to_regclass($1) IS NOT NULL END) AS "exists"
  FROM pg_namespace WHERE nspname = $2`;

/** Reads the names of the applied migrations; null if there is no such table, or the role may not see it. */
export async function readAppliedMigrations(
  database: PostgresSchema,
  { table: name }: TableSet,
): Promise<Set<string> | null> {
  const run = execute(database, { retryForMs: OPEN_TIMEOUT_MS });
  const table = `${quoted(database.schema)}.${quoted(name)}`;
  const found = await run<{ exists: boolean }>(HAS_TABLE, [table, database.schema]);
  if (found.rows[0]?.exists !== true) return null;
  const { rows } = await run<{ name: string }>(`SELECT name FROM ${table}`);
  return new Set(rows.map((row) => row.name));
}

const MIGRATION_DIALECT: MigrationDialect = {
  bytes: 'bytea',
  timestamp: sql`timestamptz`,
  zoneTimes,
  hasColumn: async (db, table, column) => {
    const { rows } = await sql`SELECT 1 FROM pg_attribute
      WHERE attrelid = to_regclass(pg_catalog.quote_ident(${table})) AND attname = ${column} AND NOT attisdropped`.execute(
      db,
    );
    return rows.length > 0;
  },
  growing: { type: 'bigint', number: (column) => column.generatedAlwaysAsIdentity() },
  moment: (expression) => sql`(${expression} AT TIME ZONE 'UTC')`,
  replaceView: async (db, name, query) => {
    await sql`CREATE OR REPLACE VIEW ${sql.id(name)} AS ${query}`.execute(db);
  },
  hasFunctions: true,
  hasTypedExpressions: true,
};

/**
 * Gives all times of internal tables in the schema the zone UTC. Postgres rewrites no row, because the session is in UTC.
 * Views on these tables are created again in the caller's transaction. Throws `TableInUseError` if that fails.
 */
export async function zoneTimes(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ table: string; name: string }>`SELECT relname AS "table", attname AS "name" FROM pg_class
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND pg_catalog.starts_with(relname, '_sync_')
      AND atttypid = 'timestamp'::regtype ORDER BY attrelid, attnum`.execute(db);
  const timesByTable = Map.groupBy(rows, ({ table }) => table);
  const uses = Array.from(timesByTable, ([table, times]) => ({ table, columns: times.map(({ name }) => name) }));
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  const run: ExecuteSql = async <Row extends object>(text: string, values: readonly unknown[] = []) => {
    // The statement declares the type of its rows.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const query = CompiledQuery.raw(text, [...values]) as CompiledQuery<Row>;
    const { rows: found } = await db.executeQuery(query);
    return { rows: found, rowCount: found.length };
  };
  const noViews = { views: [], retyped: [], detached: new Map(), options: new Map() };
  const dependents = await findDependents(run, uses, noViews);
  refuseOthersViews(dependents);
  for (const { kind, name } of dependents.toReversed()) await run(`DROP ${kind} ${name}`);
  for (const { table, columns } of uses) {
    const changes = columns.map((name) => sql`ALTER ${sql.id(name)} TYPE timestamptz`);
    await sql`ALTER TABLE ${sql.id(table)} ${sql.join(changes)}`.execute(db);
  }
  for (const dependent of dependents) {
    try {
      for (const statement of dependent.statements) await run(statement);
    } catch (error) {
      throw inUseError([dependent], new Error(messageOf(error), { cause: error }));
    }
  }
}

const VACUUM_TIMEOUT_MS = 6 * 3_600_000;
/** A table up to this size is rewritten, which blocks its readers for a second. */
const MAX_REWRITTEN_BYTES = 64 * 1_048_576;
const MAX_REWRITES = 5;
const PAUSE_MS = 300;
/** How long to wait for transactions that still see deleted rows. */
const READERS_TIMEOUT_MS = 10_000;

/**
 * Removes dead rows, TOAST values and statistics. Small tables are rewritten, so that no disk page still has deleted data.
 * Returns false if another transaction still sees deleted rows: then they could not be removed.
 */
export async function cleanTables(database: PostgresSchema, tables: readonly string[]): Promise<boolean> {
  const isRemovable = await waitForOlderTransactions(database);
  for (const table of tables) await cleanTable(database, `${quoted(database.schema)}.${quoted(table)}`);
  return isRemovable;
}

async function cleanTable(database: PostgresSchema, table: string): Promise<void> {
  const run = execute(database, { statementMs: VACUUM_TIMEOUT_MS });
  const readState = async () => onlyRow(await run<{ bytes: number; file: number | null }>(TABLE_STATE, [table]));
  const before = await readState();
  if (before.file === null) return;
  const rewrites = before.bytes > MAX_REWRITTEN_BYTES ? 0 : MAX_REWRITES;
  for (let attempt = 0; attempt < rewrites; attempt += 1) {
    // A locked table is skipped, so that no session waits; a rewritten table has another file.
    await run(`VACUUM (FULL, SKIP_LOCKED, ANALYZE) ${table}`);
    if ((await readState()).file !== before.file) return;
    await database.clock.sleep(PAUSE_MS);
  }
  await run(`VACUUM (ANALYZE) ${table}`);
}

const TABLE_STATE = `SELECT pg_total_relation_size(to_regclass($1))::bigint AS "bytes",
  pg_relation_filenode(to_regclass($1))::bigint AS "file"`;

/**
 * Counts the transactions from before `$1`, the next transaction id at the start. A write in another database of the server
 * also keeps dead rows from being removed.
 */
const OLDER_TRANSACTIONS = `SELECT count(*)::int + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint < $1::text::bigint)::int AS "n"
  FROM pg_stat_activity WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()
  AND "backend_xmin" IS NOT NULL AND age("backend_xmin") > age(($1::text::bigint % 4294967296)::text::xid)`;

/** Returns false if some are still running after the timeout. */
async function waitForOlderTransactions(database: PostgresSchema): Promise<boolean> {
  const { clock } = database;
  const run = execute(database);
  const { next } = onlyRow(
    await run<{ next: string }>('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS "next"'),
  );
  const deadline = clock.monotonic() + READERS_TIMEOUT_MS;
  for (;;) {
    if (onlyRow(await run<{ n: number }>(OLDER_TRANSACTIONS, [next])).n === 0) return true;
    if (clock.monotonic() >= deadline) return false;
    await clock.sleep(PAUSE_MS);
  }
}
