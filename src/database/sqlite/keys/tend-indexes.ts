import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from 'better-sqlite3';
import type { TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { columnText, INDEX, type ColumnIndex, type KeyPlan } from '../../key-plan.ts';

/** Numbers that are added up per record that they belong to, and the times by which they are chosen. */
const MEASURES: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'date', 'timestamp']);
/** An index of more columns is nearly the table again. */
const MOST_MEASURES = 8;

type Planned = Pick<KeyPlan, 'tables' | 'indexes'>;

interface WantedIndex {
  name: string;
  statement: string;
}

/** Brings indexes and statistics up to date; `run` runs a statement in a transaction of its own. */
export async function tendIndexes(
  db: Database,
  plan: Planned,
  run: (statement: string) => Promise<void>,
  whenUnlocked: <T>(read: () => T) => Promise<T>,
): Promise<void> {
  for (const statement of missingIndexes(db, plan)) {
    await sortedInFile(db, () => run(statement));
    // One index of a million rows takes a second.
    await nextTurn();
  }
  // The pragma takes the write lock, although it only lists what is to be done.
  for (const statement of await whenUnlocked(() => outdatedStatistics(db, plan))) await run(statement);
}

/**
 * ANALYZE for each table that has no statistics or has grown tenfold since: without them SQLite reads a whole table by way
 * of a partial index. With the connection's limit a million rows take 0.1 s.
 */
function outdatedStatistics(db: Database, { tables }: Planned): string[] {
  const ours = new Set(tables.map(({ name }) => `ANALYZE "main".${quoted(name)}`));
  const outdated = db.prepare<[], string>('PRAGMA optimize(0x10003)').pluck().all();
  return outdated.filter((statement) => ours.has(statement));
}

/** An index of a million rows is sorted in a file, or it takes 100 MB of memory; in memory if no such file can be made. */
async function sortedInFile(db: Database, run: () => Promise<void>): Promise<void> {
  try {
    db.pragma('temp_store = FILE');
    await run();
  } catch {
    // Whatever else was wrong is so again.
    db.pragma('temp_store = MEMORY');
    await run();
  } finally {
    db.pragma('temp_store = MEMORY');
  }
}

/**
 * Statements that build the indexes which are missing, and take away ours that nobody wants any more or that are not as
 * they should be.
 */
function missingIndexes(db: Database, { tables, indexes }: Planned): string[] {
  const standing = new Map(
    db
      .prepare<[string], [string, string]>(STANDING)
      .raw()
      .all(JSON.stringify(tables.map(({ name }) => name))),
  );
  const wanted = [...indexes.map(wantedIndex), ...tables.filter(({ path }) => path.length === 0).map(changedIndex)];
  const stays = (name: string, text: string): boolean =>
    wanted.some((index) => index.name === name && index.statement === text);
  const dropped = [...standing].filter(([name, text]) => !stays(name, text));
  const missing = wanted.filter(({ name, statement }) => standing.get(name) !== statement);
  return [
    ...dropped.map(([name]) => `DROP INDEX IF EXISTS ${quoted(name)}`),
    ...missing.map(({ statement }) => statement),
  ];
}

/** Begins the names of indexes that no setting takes away. */
const CHANGED = '_sync_changed_';

const STANDING = `SELECT name, sql FROM sqlite_schema WHERE type = 'index'
  AND (substr(name, 1, ${INDEX.length}) = '${INDEX}' OR substr(name, 1, ${CHANGED.length}) = '${CHANGED}')
  AND tbl_name IN (SELECT value FROM json_each(?))`;

function nameOf(index: ColumnIndex): string {
  return `${INDEX}${columnText(index)}`;
}

function wantedIndex(index: ColumnIndex): WantedIndex {
  const { table, why } = index;
  const isWide = why === 'reference' || why === 'window';
  const isCovering = isWide && table.path.length === 0;
  const columns = isWide ? wideColumns(index) : [index.column];
  const where = isCovering ? ' WHERE "_deleted_at" IS NULL' : '';
  const on = `${quoted(table.name)} (${columns.map(quoted).join(', ')})${where}`;
  return { name: nameOf(index), statement: `CREATE INDEX ${quoted(nameOf(index))} ON ${on}` };
}

/** Of records that have changed since they were first copied: `sync_freshness` counts them. */
function changedIndex({ name: table }: TableShape): WantedIndex {
  const name = `${CHANGED}${table}`;
  const on = `${quoted(table)} ("_deleted_at", "_version") WHERE "_version" > 1`;
  return { name, statement: `CREATE INDEX ${quoted(name)} ON ${on}` };
}

/**
 * With all that a sum per record, or per day, needs: SQLite would else look up each row of an index in the table, which is slower
 * than reading the table from end to end. A child table's rows are as small as an index of them.
 */
function wideColumns({ table, column }: ColumnIndex): string[] {
  if (table.path.length > 0) return [column, table.key[0] ?? ''];
  const measures = table.columns.filter(({ name, type }) => MEASURES.has(type) && name !== column);
  return [column, ...measures.slice(0, MOST_MEASURES).map(({ name }) => name)];
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
