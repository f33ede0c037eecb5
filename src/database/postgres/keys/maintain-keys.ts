import { escapeIdentifier as quoted } from 'pg';
import { SyncError } from '../../../model/errors.ts';
import type { TableShape } from '../../../model/table.ts';
import { columnText, INDEX, type KeyPlan, type Reference, PARENT_KEY, parentKey, parentTable } from '../../key-plan.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { onlyRow } from '../connection/session.ts';
import { causeCode, execute, transact, type Database } from '../connection/transact.ts';
import { nameBehind } from '../widening/ddl.ts';

/** How keys of ours begin that lead to another resource. */
const REFERENCE_KEY = '_sync_reference_';
/** Since this version a key can be told without being held: NOT ENFORCED. */
const NOT_ENFORCED_SINCE = 180_000;
/** A big index takes its time; no reader waits for it. */
const BUILD_MS = 6 * 3_600_000;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it stops an autovacuum that is in the way. */
const LOCK_MS = 3_000;
/** What readers may have to wait for. */
const EXCLUSIVE_LOCK_MS = 300;

interface StandingKey {
  table: string;
  name: string;
  target: string;
}

interface ForeignKey extends StandingKey {
  /** What stands behind `ADD CONSTRAINT` and its name. */
  text: string;
}

interface StandingIndex {
  name: string;
  /** The access method, such as `btree`. */
  method: string;
}

/** The keys and indexes of ours on the tables of a plan, as they are. */
interface Standing extends Record<string, unknown> {
  /** Of the server, as `server_version_num` has it. */
  version: number;
  keys: [table: string, name: string, target: string][];
  /** Those that can be used; one that was left half built goes with the rest. */
  indexes: [name: string, method: string][];
}

/** See `Warehouse.tendKeys`. Each step is a transaction of its own, and is found done the next time. */
export async function tendKeys(database: Database, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  const names = plan.tables.map(({ name }) => name);
  const { version, keys, indexes } = onlyRow(
    await execute(database)<Standing>(STANDING, [database.schema, names, INDEX]),
  );
  const steps = [
    ...keyChanges(
      plan,
      version >= NOT_ENFORCED_SINCE,
      keys.map(([table, name, target]) => ({ table, name, target })),
    ),
    ...indexChanges(
      plan,
      indexes.map(([name, method]) => ({ name, method })),
    ),
  ];
  for (const step of steps) await alone(database, lease, step);
}

/**
 * The keys of child tables to their parents, and those to other resources, whose records may be missing. Where the server
 * knows keys that are told and not held, both are so: all rows of a record are written in one transaction, and to look
 * each of them up would cost a third of what it takes to write it. Elsewhere those to parents are held.
 */
function keyChanges(plan: KeyPlan, mayTell: boolean, standing: readonly StandingKey[]): string[] {
  const wanted = [...parentKeys(plan.tables, mayTell), ...(mayTell ? referenceKeys(plan.references) : [])];
  const isSame = (a: StandingKey, b: StandingKey): boolean =>
    a.table === b.table && a.name === b.name && a.target === b.target;
  return [
    ...standing
      .filter((key) => !wanted.some((other) => isSame(key, other)))
      .map(({ table, name }) => `ALTER TABLE ${quoted(table)} DROP CONSTRAINT ${quoted(name)}`),
    ...wanted
      .filter((key) => !standing.some((other) => isSame(key, other)))
      .map(({ table, name, text }) => `ALTER TABLE ${quoted(table)} ADD CONSTRAINT ${quoted(name)} ${text}`),
  ];
}

function parentKeys(tables: readonly TableShape[], mayTell: boolean): ForeignKey[] {
  // Deferred: in which order the tables of a record are written is nobody's concern.
  const how = mayTell ? 'NOT ENFORCED' : 'DEFERRABLE INITIALLY DEFERRED';
  return tables.flatMap((table) => {
    const parent = parentTable(table, tables);
    if (parent === null) return [];
    const text = `FOREIGN KEY (${list(parentKey(table))}) REFERENCES ${quoted(parent.name)} (${list(parent.key)}) ${how}`;
    return [{ table: table.name, name: nameBehind(PARENT_KEY, table.name), target: parent.name, text }];
  });
}

/** Of texts: keys are, and nothing else can point to them. */
function referenceKeys(references: readonly Reference[]): ForeignKey[] {
  return references.flatMap(({ table, column, to }): ForeignKey[] => {
    if (to === null || !isText(table, column)) return [];
    const name = nameBehind(REFERENCE_KEY, columnText({ table, column }));
    const text = `FOREIGN KEY (${quoted(column)}) REFERENCES ${quoted(to.table)} (${quoted(to.column)}) NOT ENFORCED`;
    return [{ table: table.name, name, target: to.table, text }];
  });
}

function isText({ key, columns }: TableShape, name: string): boolean {
  return key[0] === name || columns.some((column) => column.name === name && column.type === 'text');
}

function list(columns: readonly string[]): string {
  return columns.map((name) => quoted(name)).join(', ');
}

/**
 * Builds the indexes that are missing, and takes away ours that are not wanted any more. While one is built its table can
 * be read, not written; and it is us who write.
 */
function indexChanges({ tables, indexes }: KeyPlan, standing: readonly StandingIndex[]): string[] {
  const wanted = indexes.map((index) => ({
    name: nameBehind(INDEX, columnText(index)),
    table: index.table.name,
    column: index.column,
    method: index.why === 'window' ? ('brin' as const) : ('btree' as const),
  }));
  const isSame = (one: StandingIndex, other: StandingIndex): boolean =>
    one.name === other.name && one.method === other.method;
  const missing = wanted.filter((each) => !standing.some((other) => isSame(each, other)));
  const indexed = new Set(missing.map(({ table }) => table));
  return [
    ...standing
      .filter((each) => !wanted.some((other) => isSame(other, each)))
      .map(({ name }) => `DROP INDEX IF EXISTS ${quoted(name)}`),
    ...missing.map(
      ({ name, table, column, method }) =>
        `CREATE INDEX ${quoted(name)} ON ${quoted(table)} USING ${method} (${quoted(column)})${METHODS[method]}`,
    ),
    // A table that was just filled has no statistics yet, and no index is chosen well without them.
    ...tables.filter(({ name }) => indexed.has(name)).map(({ name }) => `ANALYZE ${quoted(name)}`),
  ];
}

/**
 * What follows the columns. Reports come window by window and lie so in the table: which days each stretch of it holds
 * takes a thousandth of an index of each row.
 */
const METHODS = { btree: '', brin: ' WITH (pages_per_range = 32, autosummarize = on)' } as const;

/** SQLSTATE of a value that is longer than an index holds. */
const TOO_LONG = '54000';

/**
 * Runs `work`, and again without our indexes of texts if a value is longer than one holds: no index keeps a record out.
 * They are left out from then on, as long as the value is there.
 */
export async function orUnindexed<T>(database: Database, resource: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (causeCode(error) !== TOO_LONG) throw error;
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
 * SQLSTATEs of what is nobody's fault here: locks and long transactions of others, rights, things of others that stand
 * on it, rows that do not fit. The copy is whole without it, and the next time tries again.
 */
const LEFT = new Set(
  '55P03 40P01 40001 57014 42501 2BP01 42P16 42P07 42710 23503 0A000 42804 42830 54000 42883 42P01'.split(' '),
);

/** Runs one statement in a transaction of its own under the lease; leaves out what others do not let it do. */
async function alone(database: Database, lease: () => LeaseProof, statement: string): Promise<void> {
  const lockMs = statement.startsWith('CREATE') || statement.includes(' ADD ') ? LOCK_MS : EXCLUSIVE_LOCK_MS;
  const options = { lease: lease(), statementMs: BUILD_MS, lockMs, retryForMs: 0 };
  try {
    await transact(database, async ({ execute: run }) => void (await run(statement)), options);
  } catch (error) {
    const isBusy = error instanceof SyncError && error.code === 'warehouse_busy';
    if (!isBusy && !LEFT.has(causeCode(error))) throw error;
  }
}

const KEYS = `SELECT ARRAY[child.relname::text, conname::text, parent.relname::text]
  FROM pg_constraint JOIN pg_class AS child ON child.oid = conrelid JOIN pg_class AS parent ON parent.oid = confrelid
  WHERE contype = 'f' AND pg_catalog.starts_with(conname, '_sync_') AND connamespace = own.oid AND child.relname = ANY($2::text[])`;

const INDEXES = `SELECT ARRAY[pg_class.relname::text, amname::text]
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = pg_class.relam
  JOIN pg_class AS indexed ON indexed.oid = indrelid
  WHERE indexed.relnamespace = own.oid AND indexed.relname = ANY($2::text[])
    AND pg_catalog.starts_with(pg_class.relname, $3::text) AND indisvalid`;

const STANDING = `SELECT current_setting('server_version_num')::int AS version,
    ARRAY(${KEYS}) AS keys, ARRAY(${INDEXES}) AS indexes
  FROM (SELECT (SELECT oid FROM pg_namespace WHERE nspname = $1) AS oid) AS own`;
