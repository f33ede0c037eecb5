import type { Kysely } from 'kysely';
import { SyncError } from '../model/errors.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import type { ColumnIndex } from './key-plan.ts';
import type { OwnTables } from './own-tables.ts';
import type { ViewDialect } from './view-dialect.ts';

/**
 * A value of a view: an integer as bigint, a double as number; numerics by their digits, dates as `YYYY-MM-DD`, moments as
 * `YYYY-MM-DD HH:MM:SS` in UTC with up to six decimals, JSON and texts as texts.
 */
export type ViewCell = null | boolean | bigint | number | string;

export interface ReadColumn {
  name: string;
  type: ColumnType;
  /** The column that has the digits of a numeric, if it is another one: a view of SQLite shows the nearest double. */
  digits?: string;
}

/** What is read of a view, or of a table that people read. */
export interface ViewQuery {
  view: string;
  columns: readonly ReadColumn[];
  /** Rows come in the order of these, texts in that of their bytes in UTF-8. */
  orderBy: readonly ReadColumn[];
  /** Only rows whose value is `from` or greater (any if null) and less than `below` (any if null). */
  within?: { column: ReadColumn; from: string | null; below: string | null };
  /** Only rows with this text in this column. */
  where?: { column: string; is: string };
  /** The first rows at most. */
  limit?: number;
}

/** Digits of the numerics of a column: the most before and behind the point. */
export interface DecimalSpan {
  whole: number;
  scale: number;
}

/**
 * What people read of a warehouse, all of it as it stood at one moment, whatever is written to it meanwhile. Nothing is
 * made or changed. All methods throw `SyncError`; `snapshot_lost` asks to begin again.
 */
export interface SnapshotReader {
  /** Queries on our own tables, of the same moment: one after the other. */
  readonly own: Kysely<OwnTables>;
  /** Columns of a view or table as the database declares them; null if there is none of that name. */
  columns(view: string): Promise<ReadColumn[] | null>;
  /** Batches of some megabytes at most, rows as large as that aside; one query at a time. */
  rows(query: ViewQuery): AsyncIterable<ViewCell[][]>;
  /** Null if all are NULL, or some have no digits. */
  decimalSpan(view: string, column: ReadColumn): Promise<DecimalSpan | null>;
  /** What the database itself finds broken in its tables and indexes, a sentence each, and how it has looked. */
  damage(tables: readonly string[]): Promise<string[]>;
  /** Names of those of the wanted indexes that are not there or cannot be used. */
  missingIndexes(wanted: readonly ColumnIndex[]): Promise<string[]>;
  close(): Promise<void>;
}

const SHOWN_CHARACTERS = 40;

/** A value that its column's type does not allow: a fault of whoever wrote it. */
export function misfit(value: unknown, { name, type }: ReadColumn): SyncError {
  const shown = JSON.stringify(String(value).slice(0, SHOWN_CHARACTERS));
  return new SyncError('export_misfit', `a value of column ${name} is no ${type}: ${shown}`, {
    recovery: 'stop',
    hint: 'correct the row if somebody else wrote it; or leave its table out, by naming the others with --tables',
  });
}

/** The SELECT of a query, in the words of a database; `ordered` is a column as rows are ordered and chosen by it. */
export function selectText(
  { view, columns, orderBy, within, where: only, limit }: ViewQuery,
  { id, literal }: Pick<ViewDialect, 'id' | 'literal'>,
  ordered: (column: ReadColumn) => string = ({ name }) => id(name),
): string {
  const conditions = only === undefined ? [] : [`${id(only.column)} = ${literal(only.is)}`];
  if (within !== undefined) {
    const { column, from, below } = within;
    if (from !== null) conditions.push(`${ordered(column)} >= ${literal(from)}`);
    if (below !== null) conditions.push(`${ordered(column)} < ${literal(below)}`);
  }
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  const order = orderBy.length === 0 ? '' : ` ORDER BY ${orderBy.map((column) => ordered(column)).join(', ')}`;
  const list = columns.map(({ name, digits }) => id(digits ?? name)).join(', ');
  return `SELECT ${list} FROM ${id(view)}${where}${order}${limit === undefined ? '' : ` LIMIT ${limit}`}`;
}
