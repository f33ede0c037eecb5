import { sql, type CompiledQuery, type Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { NAMED } from '../name-state.ts';
import type { OwnTables } from '../own-tables.ts';
import type { LeaseProof, PageRows, Warehouse } from '../warehouse.ts';
import type { PostgresAddress } from './connection/address.ts';
import type { Step } from './connection/batch.ts';
import { openDatabase, WAREHOUSE_TABLES } from './connection/open-database.ts';
import { softDelete, keysAfter, liveSample, purge } from './pages/soft-delete.ts';
import { databaseNow } from './connection/database-clock.ts';
import { growTables } from './widening/grow-tables.ts';
import { createPageWriter } from './pages/page-writer.ts';
import { rewriteRows } from './pages/row-rewriter.ts';
import { countUntimed, latestKeys } from './pages/row-times.ts';
import type { Session } from './connection/session.ts';
import { storedRows } from './pages/stored-rows.ts';
import { transact, type Database } from './connection/transact.ts';

/** Opens (and makes, and migrates) a source's schema. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(address: PostgresAddress, clock: Clock): Promise<Warehouse> {
  const { database, own, close } = await openDatabase<OwnTables>(address, clock, WAREHOUSE_TABLES);
  return postgresWarehouse(database, own, close);
}

/** The warehouse in an open and migrated schema. */
function postgresWarehouse(database: Database, own: Kysely<OwnTables>, close: () => Promise<void>): Warehouse {
  const stepsOf = createPageWriter();
  const prepared = new WeakMap<PageRows['rows'], readonly Step[]>();
  const { schema } = database;

  function underLease<T>(lease: LeaseProof, work: (session: Session) => Promise<T>): Promise<T> {
    return transact(database, work, { lease });
  }

  /** One transaction of steps that are all known beforehand; they are asked for again at each attempt. */
  function inOneTrip(lease: LeaseProof | undefined, opening: () => Step[]): Promise<void> {
    return transact(database, () => Promise.resolve(), { ...(lease === undefined ? {} : { lease }), opening });
  }

  return {
    own,
    isOnNetwork: true,
    now: () => databaseNow(database),
    stored: storedRows(database),
    tableNames: () => tableNames(own, schema),
    holdsBeyondDouble: (table, column) => holdsBeyondDouble(own, schema, table, column),
    evolve: (growth) => growTables(database, own, growth),
    rewrite: (rewrite) =>
      underLease(rewrite.lease, async (session) => {
        await rewriteRows(session, rewrite);
        await session.runAll(rewrite.statements.map(asStep));
      }),
    prepare: (page) => void prepared.set(page.rows, stepsOf(page, false)),
    commit: (page) => {
      let attempts = 0;
      return inOneTrip(page.lease, () => {
        attempts += 1;
        const rows = (attempts === 1 ? prepared.get(page.rows) : undefined) ?? stepsOf(page, attempts > 1);
        return [...rows, ...page.statements.map(asStep)];
      });
    },
    softDelete: (burial) =>
      underLease(burial.lease, async (session) => {
        const buried = await softDelete(session, burial);
        await session.runAll(burial.statements.map(asStep));
        return buried;
      }),
    purge: (old) => underLease(old.lease, (session) => purge(session, old)),
    keysAfter: (table, after, limit) => keysAfter(database, table, after, limit),
    liveSample: (table, resource, limit) => liveSample(database, table, resource, limit),
    latestKeys: (table, column, limit) => latestKeys(own, schema, table, column, limit),
    countUntimed: (table, column) => countUntimed(own, schema, table, column),
    apply: (queries, lease) => inOneTrip(lease, () => queries.map(asStep)),
    count: (table) => count(own, schema, table),
    countDeleted: (table, since) => countDeleted(own, schema, table, since),
    // The server keeps its own log small.
    // Each commit waits for the server's log, and the inbox is in the same one, behind what was committed before.
    persist: () => Promise.resolve(),
    upkeep: () => Promise.resolve({ walBytes: 0 }),
    nameState: () => NAMED,
    close,
  };
}

function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}

async function tableNames(own: Kysely<OwnTables>, schema: string): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("relname") AS "name" FROM pg_class
    WHERE "relnamespace" = (SELECT "oid" FROM pg_namespace WHERE "nspname" = ${schema})`.execute(own);
  return new Set(rows.map((row) => row.name));
}

async function holdsBeyondDouble(
  own: Kysely<OwnTables>,
  schema: string,
  table: string,
  column: string,
): Promise<boolean> {
  const [least, most] = [sql.lit(Number.MIN_SAFE_INTEGER), sql.lit(Number.MAX_SAFE_INTEGER)];
  const exact = sql`${sql.id(column)} BETWEEN ${least} AND ${most}`;
  const { rows } = await sql`SELECT 1 FROM ${sql.id(schema, table)} WHERE NOT (${exact}) LIMIT 1`.execute(own);
  return rows.length > 0;
}

/** All rows less the deleted ones: both are counted in an index, where counting the live ones would read the table. */
export async function count(own: Kysely<OwnTables>, schema: string, table: string): Promise<number> {
  if (!(await isThere(own, schema, table))) return 0;
  const name = sql.id(schema, table);
  const deleted = sql`SELECT count(*) FROM ${name} WHERE "_deleted_at" IS NOT NULL`;
  const { rows } = await sql<{ n: number }>`SELECT (SELECT count(*) FROM ${name}) - (${deleted}) AS n`.execute(own);
  return rows[0]?.n ?? 0;
}

export async function countDeleted(
  own: Kysely<OwnTables>,
  schema: string,
  table: string,
  since: string,
): Promise<number> {
  if (!(await isThere(own, schema, table))) return 0;
  // '' is no moment: all of them.
  const from = since === '' ? '-infinity' : `${since}+00`;
  const deleted = sql<{ n: number }>`SELECT count(*) AS n FROM ${sql.id(schema, table)}
    WHERE "_deleted_at" >= ${from}::timestamptz`;
  const { rows } = await deleted.execute(own);
  return rows[0]?.n ?? 0;
}

async function isThere(own: Kysely<OwnTables>, schema: string, table: string): Promise<boolean> {
  const { rows } = await sql`SELECT 1 FROM pg_class WHERE "relname" = ${table}
    AND "relnamespace" = (SELECT "oid" FROM pg_namespace WHERE "nspname" = ${schema})`.execute(own);
  return rows.length > 0;
}
