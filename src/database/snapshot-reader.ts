// The interface of a snapshot, from which exports and `verify` read.
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
  /** Another column with the exact digits of a numeric: a view of SQLite shows the nearest double. */
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
  /** Batches of a few megabytes; one query at a time. */
  rows(query: ViewQuery): AsyncIterable<ViewCell[][]>;
  /** Null if all values are NULL, or some have no digits. */
  decimalSpan(view: string, column: ReadColumn): Promise<DecimalSpan | null>;
  close(): Promise<void>;
}

/** Another process has written to the file, so that what was read may be of two states. */
export class SnapshotLost extends SyncError {}

const SHOWN_CHARACTERS = 40;

/** The error for a value that its column's type does not allow: another program wrote it. */
export function typeMismatch(value: unknown, { name, type }: ReadColumn): SyncError {
  const shown = JSON.stringify(String(value).slice(0, SHOWN_CHARACTERS));
  return new SyncError('export_failed', `a value of column ${name} is no ${type}: ${shown}`, {
    recovery: 'stop',
    hint: 'correct the row if somebody else wrote it; or leave its table out, by naming the others with --tables',
  });
}

/** The SELECT of a query; `ordered` is a column as the database orders and filters by it. */
export function selectText(
  { view, columns, orderBy, within, where: only, limit }: ViewQuery,
  { id, literal }: ViewDialect,
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
