// Creates and drops the indexes of copied tables, after a scan.
import { escapeIdentifier as quoted } from 'pg';
import { SyncError } from '../../../model/errors.ts';
import { columnText, INDEX_PREFIX, type KeyPlan } from '../../table-layout.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { causeCode, type PostgresSchema, execute, transact } from '../connection/transact.ts';
import { prefixedName } from '../widening/ddl.ts';

/** Building a large index takes hours; no reader waits for it. */
const BUILD_TIMEOUT_MS = 6 * 3_600_000;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it cancels an autovacuum that blocks us. */
const LOCK_TIMEOUT_MS = 3_000;
/** Readers wait while we wait for an exclusive lock. */
const EXCLUSIVE_LOCK_TIMEOUT_MS = 300;

/** Statements by the index that they create or drop. */
type Statements = ReadonlyMap<string, string>;

/** Identifies an index by its name and method. */
function identity(name: string, method: string): string {
  return JSON.stringify([name, method]);
}

/** Each step is a transaction of its own; the next call finds it done. */
export async function maintainKeys(database: PostgresSchema, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  const names = plan.tables.map(({ name }) => name);
  const { rows } = await execute(database)<ExistingIndex>(INDEXES, [database.schema, names, INDEX_PREFIX]);
  const existing = new Map(
    rows.map(({ name, method }) => [identity(name, method), `DROP INDEX IF EXISTS ${quoted(name)}`]),
  );
  const wanted = wantedIndexes(plan);
  // What is not wanted is dropped before anything is created.
  const steps = [
    ...[...existing].filter(([key]) => !wanted.has(key)),
    ...[...wanted].filter(([key]) => !existing.has(key)),
  ].map(([, statement]) => statement);
  for (const step of steps) await runIfPossible(database, lease, step);
  // A table that was just filled has no statistics, without which no index is chosen well.
  const indexed = new Set(steps.flatMap((step) => /^CREATE INDEX .* ON (.*) USING/.exec(step)?.[1] ?? []));
  for (const table of indexed) await runIfPossible(database, lease, `ANALYZE ${table}`);
}

/**
 * While an index is built, its table can be read but not written. Reports are stored window by window, so that a BRIN
 * index of the days takes a thousandth of the space.
 */
function wantedIndexes({ indexes }: KeyPlan): Statements {
  return new Map(
    indexes.map(({ table, column, why }) => {
      const [method, options] = why === 'window' ? ['brin', BRIN_OPTIONS] : ['btree', ''];
      const name = prefixedName(INDEX_PREFIX, columnText(table, column));
      const on = `${quoted(table.name)} USING ${method} (${quoted(column)})`;
      return [identity(name, method), `CREATE INDEX ${quoted(name)} ON ${on}${options}`];
    }),
  );
}

const BRIN_OPTIONS = ' WITH (pages_per_range = 32, autosummarize = on)';

/** SQLSTATE of a value that is longer than an index holds. */
const PROGRAM_LIMIT_EXCEEDED = '54000';

/**
 * Runs `work`, and again without our indexes of texts if a value is longer than an index holds: no index may prevent
 * that a record is stored. The indexes are left out as long as the value exists.
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

/**
 * SQLSTATEs of locks and long transactions of other sessions, missing rights, external objects that depend on it, and
 * rows that do not fit. The copy is complete without keys and indexes, and the next call tries again.
 */
const SKIPPED_ERRORS = new Set(
  '55P03 40P01 40001 57014 42501 2BP01 42P16 42P07 42710 23503 0A000 42804 42830 54000 42883 42P01'.split(' '),
);

/** Runs a statement in a transaction of its own under the lease; skips it if others prevent it. */
async function runIfPossible(database: PostgresSchema, lease: () => LeaseProof, statement: string): Promise<void> {
  // Readers can go on while an index is created, but not while one is dropped.
  const letsReadersIn = statement.startsWith('CREATE') || statement.includes(' ADD ');
  const lockMs = letsReadersIn ? LOCK_TIMEOUT_MS : EXCLUSIVE_LOCK_TIMEOUT_MS;
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

/** The managed indexes. One that was interrupted while it was built is invalid, and created again. */
const INDEXES = `SELECT pg_class.relname::text AS name, amname::text AS method
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = pg_class.relam
  JOIN pg_class AS indexed ON indexed.oid = indrelid
  WHERE indexed.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND indexed.relname = ANY($2::text[])
    AND pg_catalog.starts_with(pg_class.relname, $3::text) AND indisvalid`;
