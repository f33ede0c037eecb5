// What both databases have alike in copied tables: keys, internal columns and indexes, and how rows are written to them.
import type { Cell, Column, TableRows, TableShape } from '../model/table.ts';
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
interface InternalColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** True if it is NOT NULL. */
  readonly isRequired: boolean;
  /** Returns its cell for a row that is written; null for a column that is empty in such a row. */
  readonly stamp: ((record: WrittenRecord, page: PageRows) => string | number) | null;
  /** For users who choose columns. */
  readonly comment: string;
}

export const INTERNAL_COLUMNS: readonly InternalColumn[] = [
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
export function internalColumns({ path }: TableShape): readonly InternalColumn[] {
  return path.length === 0 ? INTERNAL_COLUMNS : [];
}

/** How a database declares the columns of copied tables. */
interface ColumnDeclarations {
  quote: (name: string) => string;
  /** The type of a record's key. */
  keyType: string;
  types: Readonly<Record<ColumnType, string>>;
  /** The type of a column with values of the service. */
  columnType: (column: Column) => string;
}

/** The definitions for `CREATE TABLE`: internal columns come right after the key, before any long text. */
export function columnDefinitions(table: TableShape, declarations: ColumnDeclarations): string[] {
  const { quote, keyType, types, columnType } = declarations;
  return [
    ...table.key.map((name, at) => `${quote(name)} ${at === 0 ? keyType : types.integer} NOT NULL`),
    ...internalColumns(table).map(
      ({ name, type, isRequired }) => `${quote(name)} ${types[type]}${isRequired ? ' NOT NULL' : ''}`,
    ),
    ...table.columns.map((column) => `${quote(column.name)} ${columnType(column)}`),
  ];
}

/** Columns of a row as it is inserted, in the order of `stampedCells`. */
export function insertedColumns(table: TableShape): { name: string; type: ColumnType }[] {
  const keys = table.key.map((name, at) => ({ name, type: at === 0 ? ('text' as const) : ('integer' as const) }));
  return [...keys, ...internalColumns(table).filter(({ stamp }) => stamp !== null), ...table.columns];
}

/**
 * The cells of a resource's own table as they are inserted, row after row: the key, internal columns, and the values of
 * the service. A plain loop, because it runs for each cell.
 */
export function stampedCells({ table, width, cells }: TableRows, page: PageRows): Cell[] {
  const keys = table.key.length;
  const stamps = internalColumns(table).flatMap(({ stamp }) => stamp ?? []);
  const stamped: Cell[] = [];
  for (const [at, record] of page.records.entries()) {
    const start = at * width;
    for (let cell = start; cell < start + keys; cell += 1) stamped.push(cells[cell] ?? null);
    for (const stamp of stamps) stamped.push(stamp(record, page));
    for (let cell = start + keys; cell < start + width; cell += 1) stamped.push(cells[cell] ?? null);
  }
  return stamped;
}

/** Distinguishes the existing row from the upsert's `excluded`, also in a table that is named `excluded`. */
export const EXISTING_ROW = '"_there"';

/**
 * The end of an INSERT into a resource's own table that overwrites existing rows. The condition makes a late page
 * harmless: a row that was requested later stays.
 */
export function overwriteClause(table: TableShape, quote: (name: string) => string): string {
  const inserted = insertedColumns(table).slice(table.key.length);
  const updates = inserted.map(({ name }) => `${quote(name)} = excluded.${quote(name)}`);
  const emptied = internalColumns(table).flatMap(({ name, stamp }) =>
    stamp === null ? [`${quote(name)} = NULL`] : [],
  );
  return ` ON CONFLICT (${table.key.map(quote).join(', ')}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= ${EXISTING_ROW}."_synced_at"`;
}
