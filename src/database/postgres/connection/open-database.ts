import { Kysely, sql } from 'kysely';
import { escapeIdentifier } from 'pg';
import type { MigrationDialect } from '../../../../migrations/dialect.ts';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError } from '../../../model/errors.ts';
import { INBOX_MIGRATIONS, isUpToDate, migrate, WAREHOUSE_MIGRATIONS, type Migrations } from '../../migrate.ts';
import type { PostgresAddress } from './address.ts';
import { COMMIT_MARKS, COMMON_SCHEMA, FORGET_OLD_MARKS, execute, transact, type Database } from './transact.ts';
import { ownDialect, sessionDialect } from './own-dialect.ts';
import { borrowDatabase } from './pools.ts';
import { onlyRow } from './session.ts';
import { hideOwnTables, refuseStrangers, refuseWithoutCreate } from './schema-rights.ts';
import { zoneTimes } from './zoned-times.ts';

/** A server that is just starting is waited for; one that is not there at all is an error of the settings. */
const OPEN_MS = 5_000;
/** Older ones are kept up by nobody. */
const OLDEST_SERVER = 130_000;
const MIGRATE_MS = 600_000;

/** One source's schema: reachable, checked and up to date. */
export interface OpenDatabase<Tables> {
  database: Database;
  /** Queries on our own tables in the schema, as single statements. */
  own: Kysely<Tables>;
  close: () => Promise<void>;
}

/** A set of tables of ours: the steps by which they came to be, and the table that remembers those. */
export interface TableSet {
  migrations: Migrations;
  table: string;
}

export const WAREHOUSE_TABLES: TableSet = { migrations: WAREHOUSE_MIGRATIONS, table: '_sync_migrations' };
/** In the schema of the source, beside those of the warehouse. */
export const INBOX_TABLES: TableSet = { migrations: INBOX_MIGRATIONS, table: '_sync_inbox_migrations' };

/** Opens (and makes, and migrates) the schema that an address names. Throws `ConfigError` if it cannot be used. */
export async function openDatabase<Tables>(
  address: PostgresAddress,
  clock: Clock,
  tables: TableSet,
): Promise<OpenDatabase<Tables>> {
  const { database, release } = borrowDatabase(address, clock);
  try {
    await checkServer(database);
    await keepCommitMarks(database);
    await bringUpToDate(database, tables);
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

/** Fails now rather than later. */
export async function checkServer(database: Database): Promise<void> {
  const { shown } = database;
  const facts = onlyRow(await execute(database, { retryForMs: OPEN_MS })<ServerFacts>(FACTS));
  if (facts.version < OLDEST_SERVER) {
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

/** Databases whose marks this thread has looked after. */
const marked = new WeakSet<Database['pool']>();

/** Needed by every transaction, whatever its schema. */
async function keepCommitMarks(database: Database): Promise<void> {
  if (marked.has(database.pool)) return;
  await bringUpToDate({ ...database, schema: COMMON_SCHEMA }, COMMIT_MARKS);
  await execute(database, { retryForMs: OPEN_MS })(FORGET_OLD_MARKS);
  marked.add(database.pool);
}

/**
 * A page that an older version has in hand is committed first, and with its next one it sees that the tables are not
 * the ones that it knows.
 */
const WAIT_FOR_PAGES = `DO $$ BEGIN IF to_regclass('_sync_leases') IS NOT NULL THEN
  LOCK TABLE "_sync_leases" IN SHARE ROW EXCLUSIVE MODE; END IF; END $$`;

/** Two processes that start together migrate one after the other. */
async function bringUpToDate(database: Database, tables: TableSet): Promise<void> {
  const ask = execute(database, { retryForMs: OPEN_MS });
  await refuseStrangers(ask, database);
  // Asked without a lock and without the catalog of all schemas: hundreds of sources start together.
  const done = await stepsDone(database, tables);
  if (done !== null && isUpToDate(database.shown, done, tables.migrations)) return;
  await refuseWithoutCreate(ask, database);
  await transact(
    database,
    async (session) => {
      const { schema, shown } = database;
      // One after the other over all schemas: making one concurrently can fail although it says IF NOT EXISTS.
      await session.execute("SELECT pg_advisory_xact_lock(hashtext('content-sync migrations'))");
      const there = await session.execute('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
      if (there.rowCount === 0) await session.execute(`CREATE SCHEMA ${escapeIdentifier(schema)}`);
      else {
        // Another role may have made it since the check above.
        await refuseStrangers(session.execute, database);
        await session.execute(WAIT_FOR_PAGES);
      }
      await migrate(new Kysely({ dialect: sessionDialect(session) }), {
        ...tables,
        dialect: MIGRATION_DIALECT,
        shown,
        schema,
      });
      await hideOwnTables(session, schema);
    },
    // A step that is done is not done again.
    { retryForMs: OPEN_MS, mayRepeat: true, statementMs: MIGRATE_MS, lockMs: MIGRATE_MS },
  );
}

/** In a schema that is closed to the role, nothing is there for it. */
const IS_THERE = `SELECT bool_or(CASE WHEN has_schema_privilege(oid, 'USAGE') THEN to_regclass($1) IS NOT NULL END) AS there
  FROM pg_namespace WHERE nspname = $2`;

/** The steps by which the tables came to be; null if they are not there, or not for this role. */
export async function stepsDone(database: Database, { table: name }: TableSet): Promise<Set<string> | null> {
  const ask = execute(database, { retryForMs: OPEN_MS });
  const table = `${escapeIdentifier(database.schema)}.${escapeIdentifier(name)}`;
  const there = await ask<{ there: boolean }>(IS_THERE, [table, database.schema]);
  if (there.rows[0]?.there !== true) return null;
  const { rows } = await ask<{ name: string }>(`SELECT name FROM ${table}`);
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
