// Maintains the indexes of copied tables and the statistics of SQLite, after each sync. Joins by references and sums per
// record or day, as analysts write them, would read whole tables without them.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from 'better-sqlite3';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { type ColumnIndex, columnText, INDEX_PREFIX, type KeyPlan } from '../../table-layout.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';

const { id } = VIEW_DIALECT;

/** Types of columns that queries aggregate, or filter by. */
const MEASURE_TYPES: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'date', 'timestamp']);
/** An index of more columns is nearly as large as the table. */
const MAX_MEASURES = 8;

type IndexStatement = readonly [name: string, statement: string];

/** Brings indexes and statistics up to date; `run` runs a statement in a transaction of its own. */
export async function maintainIndexes(
  db: Database,
  plan: KeyPlan,
  run: (statement: string) => Promise<void>,
  retryWhileLocked: <T>(read: () => T) => Promise<T>,
): Promise<void> {
  for (const statement of indexChanges(db, plan)) {
    await sortInFile(db, () => run(statement));
    // An index of a million rows takes a second: other work runs in between.
    await nextTurn();
  }
  // The pragma takes the write lock, although it only lists statements.
  for (const statement of await retryWhileLocked(() => outdatedStatistics(db, plan))) await run(statement);
}

/** Returns an ANALYZE for each table without statistics, or with ten times as many rows as when they were made. */
function outdatedStatistics(db: Database, { tables }: KeyPlan): string[] {
  const managed = new Set(tables.map(({ name }) => `ANALYZE "main".${id(name)}`));
  // 0x10003: only list the statements, for all tables.
  const outdated = db.prepare<[], string>('PRAGMA optimize(0x10003)').pluck().all();
  return outdated.filter((statement) => managed.has(statement));
}

/** Sorts in a temporary file: a million rows take 100 MB of memory, which is used only if no file can be created. */
async function sortInFile(db: Database, run: () => Promise<void>): Promise<void> {
  try {
    db.pragma('temp_store = FILE');
    await run();
  } catch {
    // An error with another cause occurs again.
    db.pragma('temp_store = MEMORY');
    await run();
  } finally {
    db.pragma('temp_store = MEMORY');
  }
}

/** Returns the statements that create missing indexes, and drop managed ones that the plan does not have like that. */
function indexChanges(db: Database, { tables, indexes }: KeyPlan): string[] {
  const names = JSON.stringify(tables.map(({ name }) => name));
  const existing = new Map(db.prepare<[string], [string, string]>(MANAGED_INDEXES).raw().all(names));
  const roots = tables.filter(({ path }) => path.length === 0);
  const wanted = new Map([...indexes.map(wantedIndex), ...roots.map(({ name }) => changedIndex(name))]);
  return [
    ...[...existing]
      .filter(([name, statement]) => wanted.get(name) !== statement)
      .map(([name]) => `DROP INDEX IF EXISTS ${id(name)}`),
    ...[...wanted].filter(([name, statement]) => existing.get(name) !== statement).map(([, statement]) => statement),
  ];
}

/** The prefix of the indexes of `changedIndex`, which every root table has. */
const CHANGED = '_sync_changed_';

const MANAGED_INDEXES = `SELECT name, sql FROM sqlite_schema WHERE type = 'index'
  AND (substr(name, 1, ${INDEX_PREFIX.length}) = '${INDEX_PREFIX}' OR substr(name, 1, ${CHANGED.length}) = '${CHANGED}')
  AND tbl_name IN (SELECT value FROM json_each(?))`;

function wantedIndex(index: ColumnIndex): IndexStatement {
  const { table, why } = index;
  const isAggregated = why === 'reference' || why === 'window';
  const columns = isAggregated ? coveringColumns(index) : [index.column];
  const where = isAggregated && table.path.length === 0 ? ' WHERE "_deleted_at" IS NULL' : '';
  const name = `${INDEX_PREFIX}${columnText(index.table, index.column)}`;
  return [name, `CREATE INDEX ${id(name)} ON ${id(table.name)} (${columns.map(id).join(', ')})${where}`];
}

/** An index of the records that changed after the first copy: `sync_freshness` counts them. */
function changedIndex(table: string): IndexStatement {
  const name = `${CHANGED}${table}`;
  return [name, `CREATE INDEX ${id(name)} ON ${id(table)} ("_deleted_at", "_version") WHERE "_version" > 1`];
}

/**
 * All columns that an aggregation per record or day needs: with a smaller index SQLite would look up each row in the table,
 * which is slower than reading the whole table. The rows of child tables are small, so they need no more than the key.
 */
function coveringColumns({ table, column }: ColumnIndex): string[] {
  if (table.path.length > 0) return [column, table.key[0] ?? ''];
  const measures = table.columns.filter(({ name, type }) => MEASURE_TYPES.has(type) && name !== column);
  return [column, ...measures.slice(0, MAX_MEASURES).map(({ name }) => name)];
}
