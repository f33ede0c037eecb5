// The interface of a snapshot, from which exports and `verify` read: all queries see the same state of the copy, while syncs
// write on. Otherwise a file of an export could lack the rows to which another file refers.
import type { Kysely } from 'kysely';
import { SyncError } from '../model/errors.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import type { OwnTables } from './own-tables.ts';
import type { ViewDialect } from './view-dialect.ts';

/**
 * A value of a view: an integer as bigint, a double as number; numerics by their digits, dates as `YYYY-MM-DD`, times as
 * `YYYY-MM-DD HH:MM:SS` in UTC with up to six decimals, JSON and texts as texts.
 */
export type ViewCell = null | boolean | bigint | number | string;

export interface ReadColumn {
  name: string;
  type: ColumnType;
  /** For a numeric on SQLite, whose views show the nearest double: the column with the exact digits. */
  digits?: string;
}

/** A query on a view or a copied table. */
export interface ViewQuery {
  view: string;
  columns: readonly ReadColumn[];
  /** Texts are ordered by their bytes in UTF-8. */
  orderBy: readonly ReadColumn[];
  /** Only rows whose value is `from` or greater (any if null) and less than `below` (any if null). */
  within?: { column: ReadColumn; from: string | null; below: string | null };
  /** Only rows with this text in this column. */
  where?: { column: string; is: string };
  limit?: number;
}

/** The maximum number of digits before and after the decimal point. */
export interface DecimalSpan {
  whole: number;
  scale: number;
}

/** Reads one snapshot of a warehouse. All methods throw `SyncError`; after `SnapshotLost` the caller begins again. */
export interface SnapshotReader {
  /** Queries on internal tables in the same snapshot, one after the other. */
  readonly own: Kysely<OwnTables>;
  /** Yields batches of a few megabytes. Only one query may run at a time. */
  rows(query: ViewQuery): AsyncIterable<ViewCell[][]>;
  /** Measures the values of a numeric column; null if all are NULL, or some are not finite. */
  decimalSpan(view: string, column: ReadColumn): Promise<DecimalSpan | null>;
  close(): Promise<void>;
}

/** Another process has written to the file, so that what was read may be of two states. */
export class SnapshotLost extends SyncError {}

const SHOWN_CHARACTERS = 40;

/** The error for a value that another program wrote and the type of its column does not allow. */
export function typeMismatch(value: unknown, { name, type }: ReadColumn): SyncError {
  const shown = JSON.stringify(String(value).slice(0, SHOWN_CHARACTERS));
  return new SyncError('export_failed', `a value of column ${name} is no ${type}: ${shown}`, {
    recovery: 'stop',
    hint: 'correct the row if somebody else wrote it; or leave its table out, by naming the others with --tables',
  });
}

/** Returns the SELECT of a query; `sortable` is the expression by which the database sorts and filters a column. */
export function selectText(
  { view, columns, orderBy, within, where: equal, limit }: ViewQuery,
  { id, literal }: ViewDialect,
  sortable: (column: ReadColumn) => string = ({ name }) => id(name),
): string {
  const conditions = equal === undefined ? [] : [`${id(equal.column)} = ${literal(equal.is)}`];
  if (within !== undefined) {
    const { column, from, below } = within;
    if (from !== null) conditions.push(`${sortable(column)} >= ${literal(from)}`);
    if (below !== null) conditions.push(`${sortable(column)} < ${literal(below)}`);
  }
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  const order = orderBy.length === 0 ? '' : ` ORDER BY ${orderBy.map((column) => sortable(column)).join(', ')}`;
  const list = columns.map(({ name, digits }) => id(digits ?? name)).join(', ');
  return `SELECT ${list} FROM ${id(view)}${where}${order}${limit === undefined ? '' : ` LIMIT ${limit}`}`;
}
