import { sql, type CompiledQuery, type Kysely } from 'kysely';
import type { OwnTables } from '../own-tables.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';
import { bury, keysAfter, liveSample, purge } from './burial.ts';
import { databaseNow } from './database-clock.ts';
import { growTables } from './grow-tables.ts';
import { checkLease } from './lease-check.ts';
import { createPageWriter } from './page-writer.ts';
import { rewriteRows } from './row-rewriter.ts';
import type { Session } from './session.ts';
import { storedRows } from './stored-rows.ts';
import { transact, type Database } from './transact.ts';

/** The warehouse in an open and migrated schema. */
export function postgresWarehouse(database: Database, own: Kysely<OwnTables>, close: () => Promise<void>): Warehouse {
  const writePage = createPageWriter();
  const { schema } = database;

  /** One transaction, under the lease where one is given. */
  function underLease<T>(
    lease: LeaseProof | undefined,
    work: (session: Session, isRepeated: boolean) => Promise<T>,
  ): Promise<T> {
    let attempts = 0;
    return transact(database, async (session) => {
      attempts += 1;
      if (lease !== undefined) await checkLease(session, lease);
      return work(session, attempts > 1);
    });
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
        await runAll(session, rewrite.statements);
      }),
    commit: (page) =>
      underLease(page.lease, async (session, isRepeated) => {
        await writePage(session, page, isRepeated);
        await runAll(session, page.statements);
      }),
    bury: (burial) =>
      underLease(burial.lease, async (session) => {
        const buried = await bury(session, burial);
        await runAll(session, burial.statements);
        return buried;
      }),
    purge: (old) => underLease(old.lease, (session) => purge(session, old)),
    keysAfter: (table, after, limit) => keysAfter(database, table, after, limit),
    liveSample: (table, resource, limit) => liveSample(database, table, resource, limit),
    apply: (queries, lease) => underLease(lease, (session) => runAll(session, queries)),
    count: (table) => count(own, schema, table),
    countDeleted: (table, since) => countDeleted(own, schema, table, since),
    // The server keeps its own log small.
    upkeep: () => Promise.resolve({ walBytes: 0 }),
    close,
  };
}

async function runAll(session: Session, queries: readonly CompiledQuery[]): Promise<void> {
  for (const query of queries) await session.execute(query.sql, query.parameters);
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
async function count(own: Kysely<OwnTables>, schema: string, table: string): Promise<number> {
  if (!(await isThere(own, schema, table))) return 0;
  const name = sql.id(schema, table);
  const deleted = sql`SELECT count(*) FROM ${name} WHERE "_deleted_at" IS NOT NULL`;
  const { rows } = await sql<{ n: number }>`SELECT (SELECT count(*) FROM ${name}) - (${deleted}) AS n`.execute(own);
  return rows[0]?.n ?? 0;
}

async function countDeleted(own: Kysely<OwnTables>, schema: string, table: string, since: string): Promise<number> {
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
