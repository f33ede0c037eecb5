// Creates and drops the indexes of copied tables after a scan, such as for filters by time and for joins. The copy is complete
// without indexes, so what others prevent (locks, missing rights) is skipped, and tried again after the next scan.
import { escapeIdentifier as quoted } from 'pg';
import { SyncError } from '../../../model/errors.ts';
import { columnText, INDEX_PREFIX, type KeyPlan } from '../../table-layout.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { causeCode, execute, type PostgresSchema, transact } from '../connection/transact.ts';
import { prefixedName } from '../widening/ddl.ts';

/** Building a large index takes hours; no reader waits for it. */
const BUILD_TIMEOUT_MS = 6 * 3_600_000;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it cancels an autovacuum that holds the lock. */
const LOCK_TIMEOUT_MS = 3_000;
/** Shorter, because readers of the table wait too while a statement waits for an exclusive lock. */
const EXCLUSIVE_LOCK_TIMEOUT_MS = 300;

/** Drops the unwanted indexes, then creates the missing ones. Each is a transaction of its own, so that a kill loses little. */
export async function maintainIndexes(database: PostgresSchema, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  const tables = plan.tables.map(({ name }) => name);
  const { rows } = await execute(database)<ExistingIndex>(INDEXES, [database.schema, tables, INDEX_PREFIX]);
  const existing = new Map(rows.map((index) => [identify(index), index]));
  const wanted = new Map(wantedIndexes(plan).map((index) => [identify(index), index]));
  for (const [id, { name }] of existing) {
    if (!wanted.has(id)) await runIfPossible(database, lease, `DROP INDEX IF EXISTS ${quoted(name)}`);
  }
  const missing = [...wanted].flatMap(([id, index]) => (existing.has(id) ? [] : [index]));
  for (const { statement } of missing) await runIfPossible(database, lease, statement);
  // Postgres has no statistics yet of a table that was just filled, and needs them to choose an index.
  const changed = new Set(missing.map(({ table }) => table));
  for (const table of changed) await runIfPossible(database, lease, `ANALYZE ${quoted(table)}`);
}

/** An index with another method is another index. */
function identify({ name, method }: ExistingIndex): string {
  return JSON.stringify([name, method]);
}

interface WantedIndex extends ExistingIndex {
  table: string;
  statement: string;
}

/**
 * While an index is built, its table can be read but not written. Reports are stored window by window, so that a BRIN
 * index of the days takes a thousandth of the space.
 */
function wantedIndexes({ indexes }: KeyPlan): WantedIndex[] {
  return indexes.map(({ table, column, why }) => {
    const [method, options] = why === 'window' ? ['brin', BRIN_OPTIONS] : ['btree', ''];
    const name = prefixedName(INDEX_PREFIX, columnText(table, column));
    const on = `${quoted(table.name)} USING ${method} (${quoted(column)})`;
    return { name, method, table: table.name, statement: `CREATE INDEX ${quoted(name)} ON ${on}${options}` };
  });
}

const BRIN_OPTIONS = ' WITH (pages_per_range = 32, autosummarize = on)';

/** The SQLSTATE for a value that is too long for an index. */
const PROGRAM_LIMIT_EXCEEDED = '54000';

/**
 * Runs `work`, and again without the managed indexes of texts if a value is too long for one, because no index may prevent
 * that a record is stored. While the value exists, creating the index again fails and is skipped.
 */
export async function retryWithoutLongIndexes<T>(
  database: PostgresSchema,
  resource: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (causeCode(error) !== PROGRAM_LIMIT_EXCEEDED) throw error;
    const { rows } = await execute(database)<{ statement: string }>(TEXT_INDEXES, [
      database.schema,
      resource,
      INDEX_PREFIX,
    ]);
    if (rows.length === 0) throw error;
    await transact(database, async (session) => {
      for (const { statement } of rows) await session.execute(statement);
    });
    return work();
  }
}

const TEXT_INDEXES = `SELECT DISTINCT pg_catalog.format('DROP INDEX IF EXISTS %I', pg_class.relname) AS statement
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_class AS indexed ON indexed.oid = indrelid
  JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey) AND atttypid = 'text'::regtype
  WHERE indexed.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND pg_catalog.starts_with(pg_class.relname, $3::text)
    AND indexed.relname IN (SELECT $2::text UNION ALL SELECT relname FROM pg_class WHERE pg_catalog.starts_with(relname, $2::text || '_'))`;

/** SQLSTATEs after which a statement is skipped. */
const SKIPPED_ERRORS = new Set(
  [
    // Locks and long transactions of other sessions, and missing rights.
    '55P03 40P01 40001 57014 42501',
    // External objects that depend on the index or have its name.
    '2BP01 42P07 42710',
    // Tables or values that allow no such index.
    '42P16 23503 0A000 42804 42830 54000 42883 42P01',
  ].flatMap((codes) => codes.split(' ')),
);

/** Runs a statement in a transaction of its own under the lease; skips it if others prevent it. */
async function runIfPossible(database: PostgresSchema, lease: () => LeaseProof, statement: string): Promise<void> {
  // Other statements than the creation of an index may lock readers out, so they wait less long.
  const lockMs = statement.startsWith('CREATE') ? LOCK_TIMEOUT_MS : EXCLUSIVE_LOCK_TIMEOUT_MS;
  const options = { lease: lease(), statementMs: BUILD_TIMEOUT_MS, lockMs, retryForMs: 0 };
  try {
    await transact(database, async (session) => void (await session.execute(statement)), options);
  } catch (error) {
    const isBusy = error instanceof SyncError && error.code === 'warehouse_busy';
    if (!isBusy && !SKIPPED_ERRORS.has(causeCode(error))) throw error;
  }
}

interface ExistingIndex extends Record<string, unknown> {
  name: string;
  method: string;
}

/** Selects the managed indexes that are valid. */
const INDEXES = `SELECT pg_class.relname::text AS name, amname::text AS method
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = pg_class.relam
  JOIN pg_class AS indexed ON indexed.oid = indrelid
  WHERE indexed.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND indexed.relname = ANY($2::text[])
    AND pg_catalog.starts_with(pg_class.relname, $3::text) AND indisvalid`;
