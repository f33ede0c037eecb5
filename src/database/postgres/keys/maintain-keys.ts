// Creates and drops the foreign keys and indexes of copied tables, after a scan.
import { escapeIdentifier as quoted } from 'pg';
import { SyncError } from '../../../model/errors.ts';
import type { TableShape } from '../../../model/table.ts';
import { type LeaseProof } from '../../warehouse.ts';
import { columnText, INDEX, type KeyPlan, PARENT_KEY, parentKey, parentTable } from '../../table-layout.ts';
import { onlyRow } from '../connection/session.ts';
import { causeCode, type Database, execute, transact } from '../connection/transact.ts';
import { prefixedName } from '../widening/ddl.ts';

/** The prefix of foreign keys to other resources. */
const REFERENCE_KEY = '_sync_reference_';
/** Since this version a foreign key can be declared NOT ENFORCED. */
const NOT_ENFORCED_SINCE = 180_000;
/** Building a large index takes hours; no reader waits for it. */
const BUILD_TIMEOUT_MS = 6 * 3_600_000;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it cancels an autovacuum that blocks us. */
const LOCK_TIMEOUT_MS = 3_000;
/** Readers wait while we wait for an exclusive lock. */
const EXCLUSIVE_LOCK_TIMEOUT_MS = 300;

/** Statements by the key or index that they create or drop. */
type Statements = ReadonlyMap<string, string>;

/** Identifies a foreign key by its table, name and target, and an index by its name and method. */
function identity(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

/** Each step is a transaction of its own; the next call finds it done. */
export async function maintainKeys(database: Database, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  const names = plan.tables.map(({ name }) => name);
  const existing = onlyRow(await execute(database)<ExistingKeys>(EXISTING, [database.schema, names, INDEX]));
  const keys = new Map(
    existing.keys.map(([table, name, target]) => [
      identity(table, name, target),
      `ALTER TABLE ${quoted(table)} DROP CONSTRAINT ${quoted(name)}`,
    ]),
  );
  const indexes = new Map(
    existing.indexes.map(([name, method]) => [identity(name, method), `DROP INDEX IF EXISTS ${quoted(name)}`]),
  );
  const steps = [
    ...changes(keys, wantedKeys(plan, existing.version >= NOT_ENFORCED_SINCE)),
    ...changes(indexes, wantedIndexes(plan)),
  ];
  for (const step of steps) await runIfPossible(database, lease, step);
  // A table that was just filled has no statistics, without which no index is chosen well.
  const indexed = new Set(steps.flatMap((step) => /^CREATE INDEX .* ON (.*) USING/.exec(step)?.[1] ?? []));
  for (const table of indexed) await runIfPossible(database, lease, `ANALYZE ${table}`);
}

/** The managed foreign keys and usable indexes on the tables of a plan. */
interface ExistingKeys extends Record<string, unknown> {
  /** `server_version_num`. */
  version: number;
  keys: [table: string, name: string, target: string][];
  indexes: [name: string, method: string][];
}

/** Drops what is not wanted, and then creates what is missing. */
function changes(existing: Statements, wanted: Statements): string[] {
  return [
    ...[...existing].filter(([key]) => !wanted.has(key)),
    ...[...wanted].filter(([key]) => !existing.has(key)),
  ].map(([, statement]) => statement);
}

/**
 * The foreign keys of child tables to their parents, and those to other resources, whose records may be missing. They
 * are not enforced if the server allows that: looking up each row costs a third of writing it.
 */
function wantedKeys({ tables, references }: KeyPlan, isUnenforced: boolean): Statements {
  const wanted = new Map<string, string>();
  const add = (table: TableShape, name: string, key: string, target: string, suffix: string): void => {
    const text = `ALTER TABLE ${quoted(table.name)} ADD CONSTRAINT ${quoted(name)} FOREIGN KEY ${key} ${suffix}`;
    wanted.set(identity(table.name, name, target), text);
  };
  for (const table of tables) {
    const parent = parentTable(table, tables);
    if (parent === null) continue;
    const key = `(${list(parentKey(table))}) REFERENCES ${quoted(parent.name)} (${list(parent.key)})`;
    const suffix = isUnenforced ? 'NOT ENFORCED' : 'DEFERRABLE INITIALLY DEFERRED';
    add(table, prefixedName(PARENT_KEY, table.name), key, parent.name, suffix);
  }
  for (const { table, column, to } of isUnenforced ? references : []) {
    // Keys are texts: a column of another type cannot refer to them.
    if (to === null || !isText(table, column)) continue;
    const key = `(${quoted(column)}) REFERENCES ${quoted(to.table)} (${quoted(to.column)})`;
    add(table, prefixedName(REFERENCE_KEY, columnText(table, column)), key, to.table, 'NOT ENFORCED');
  }
  return wanted;
}

function isText({ key, columns }: TableShape, name: string): boolean {
  return key[0] === name || columns.some((column) => column.name === name && column.type === 'text');
}

function list(columns: readonly string[]): string {
  return columns.map((name) => quoted(name)).join(', ');
}

/**
 * While an index is built, its table can be read but not written. Reports are stored window by window, so that a BRIN
 * index of the days takes a thousandth of the space.
 */
function wantedIndexes({ indexes }: KeyPlan): Statements {
  return new Map(
    indexes.map(({ table, column, why }) => {
      const [method, options] = why === 'window' ? ['brin', BRIN_OPTIONS] : ['btree', ''];
      const name = prefixedName(INDEX, columnText(table, column));
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
  database: Database,
  resource: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (causeCode(error) !== PROGRAM_LIMIT_EXCEEDED) throw error;
    const { rows } = await execute(database)<{ statement: string }>(TEXT_INDEXES, [database.schema, resource, INDEX]);
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
async function runIfPossible(database: Database, lease: () => LeaseProof, statement: string): Promise<void> {
  const isShared = statement.startsWith('CREATE') || statement.includes(' ADD ');
  const lockMs = isShared ? LOCK_TIMEOUT_MS : EXCLUSIVE_LOCK_TIMEOUT_MS;
  const options = { lease: lease(), statementMs: BUILD_TIMEOUT_MS, lockMs, retryForMs: 0 };
  try {
    await transact(database, async (session) => void (await session.execute(statement)), options);
  } catch (error) {
    const isBusy = error instanceof SyncError && error.code === 'warehouse_busy';
    if (!isBusy && !SKIPPED_ERRORS.has(causeCode(error))) throw error;
  }
}

const KEYS = `SELECT ARRAY[child.relname::text, conname::text, parent.relname::text]
  FROM pg_constraint JOIN pg_class AS child ON child.oid = conrelid JOIN pg_class AS parent ON parent.oid = confrelid
  WHERE contype = 'f' AND pg_catalog.starts_with(conname, '_sync_') AND connamespace = own.oid AND child.relname = ANY($2::text[])`;

/** An index that was interrupted while it was built is invalid, and created again. */
const INDEXES = `SELECT ARRAY[pg_class.relname::text, amname::text]
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = pg_class.relam
  JOIN pg_class AS indexed ON indexed.oid = indrelid
  WHERE indexed.relnamespace = own.oid AND indexed.relname = ANY($2::text[])
    AND pg_catalog.starts_with(pg_class.relname, $3::text) AND indisvalid`;

const EXISTING = `SELECT current_setting('server_version_num')::int AS version,
    ARRAY(${KEYS}) AS keys, ARRAY(${INDEXES}) AS indexes
  FROM (SELECT (SELECT oid FROM pg_namespace WHERE nspname = $1) AS oid) AS own`;
