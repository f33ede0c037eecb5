// Internal columns, keys and indexes of copied tables.
import type { TableRows, TableShape } from '../model/table.ts';
import type { ColumnType, HistoryPolicy } from '../model/vocabulary.ts';
import type { TimestampText } from './own-tables.ts';

/** The indexes of the tables of one resource. */
export interface KeyPlan {
  /** All tables of the resource, its own first. */
  tables: readonly TableShape[];
  /** The wanted indexes of single columns; other managed indexes are dropped. */
  indexes: readonly ColumnIndex[];
}

export interface ColumnIndex {
  table: TableShape;
  column: string;
  /**
   * `chosen` by the user; `filter` for filtering and sorting; `reference` for joins, `window` for the days of reports:
   * for the last two, the databases use different kinds of indexes.
   */
  why: 'chosen' | 'filter' | 'reference' | 'window';
}

/** The prefix of managed indexes, followed by `table.column`: no name contains a dot. */
export const INDEX = '_sync_index_';

export function columnText(table: TableShape, column: string): string {
  return `${table.name}.${column}`;
}

/** A record of a page, with the values of the internal columns. */
export interface WrittenRecord {
  key: string;
  /** 1 for a new record. */
  version: number;
  hash: string;
  /** Replaces the page's time in `_synced_at`, for a row that is rewritten. */
  syncedAt?: TimestampText;
  /** The source text in UTF-8. */
  bytes: Buffer;
}

/** The rows of a page. */
export interface PageRows {
  resource: string;
  history: HistoryPolicy;
  /** True if all rows exist, and are rewritten. */
  isRewrite?: true;
  /** The time of the request, for `_synced_at` and `valid_from`: rows of a later request are not overwritten. */
  requestedAt: TimestampText;
  /** New and changed rows per table, the resource's own table first. */
  rows: readonly TableRows[];
  /** All child tables of the resource: the child rows of a changed record are replaced. */
  children: readonly TableShape[];
  /** One per row of the resource's own table, in the same order. */
  records: readonly WrittenRecord[];
}

/** An internal column of every resource's own table, right after its key. */
interface OwnColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** True if it is NOT NULL. */
  readonly isRequired: boolean;
  /** Returns its cell for a row that is written; null if the cell is empty then. */
  readonly stamp: ((record: WrittenRecord, page: PageRows) => string | number) | null;
  /** For users who choose columns. */
  readonly comment: string;
}

type Stamped = OwnColumn & { readonly stamp: NonNullable<OwnColumn['stamp']> };

export const OWN_COLUMNS: readonly OwnColumn[] = [
  {
    name: '_hash',
    type: 'text',
    isRequired: true,
    stamp: ({ hash }) => hash,
    comment: 'Fingerprint of the record as it came.',
  },
  {
    name: '_version',
    type: 'integer',
    isRequired: true,
    stamp: ({ version }) => version,
    comment: 'How often the record was seen changed, from 1.',
  },
  {
    name: '_synced_at',
    type: 'timestamp',
    isRequired: true,
    stamp: ({ syncedAt }, { requestedAt }) => syncedAt ?? requestedAt,
    comment: 'When the service was asked for this version, UTC.',
  },
  {
    name: '_deleted_at',
    type: 'timestamp',
    isRequired: false,
    stamp: null,
    comment: 'When the service was asked and no longer had the record, UTC; null for a live row.',
  },
];

/** The internal columns of a table. */
export function ownColumns({ path }: TableShape): readonly OwnColumn[] {
  return path.length === 0 ? OWN_COLUMNS : [];
}

/** Those that have a value in a row that is written. */
export function stampedColumns(table: TableShape): readonly Stamped[] {
  return ownColumns(table).filter((column): column is Stamped => column.stamp !== null);
}

/** Those that are empty in a row that was just written. */
export function emptiedColumns(table: TableShape): readonly OwnColumn[] {
  return ownColumns(table).filter(({ stamp }) => stamp === null);
}
