// The layout of copied tables, which is the same in SQLite and Postgres. For example, the table `content` has the key `id`,
// then `_hash`, `_version`, `_synced_at` and `_deleted_at`, then the fields of the records. Each database builds its
// CREATE TABLE and INSERT statements from these functions.
import type { Cell, Column, TableRows, TableShape } from '../model/table.ts';
import type { ColumnType, HistoryPolicy } from '../model/vocabulary.ts';
import type { TimestampText } from './own-tables.ts';

/** The indexes that the tables of one resource must have. */
export interface KeyPlan {
  /** All tables of the resource, its own first. */
  tables: readonly TableShape[];
  /** The wanted indexes of single columns; other managed indexes are dropped. */
  indexes: readonly ColumnIndex[];
}

export interface ColumnIndex {
  table: TableShape;
  column: string;
  /** `chosen` by the user; `filter` for filtering and sorting; `reference` for joins; `window` for the days of reports. */
  why: 'chosen' | 'filter' | 'reference' | 'window';
}

/** The prefix of managed indexes, followed by `table.column`: no name contains a dot. */
export const INDEX_PREFIX = '_sync_index_';

export function columnText(table: TableShape, column: string): string {
  return `${table.name}.${column}`;
}

/** A record whose row is written, with the values of its internal columns. */
export interface WrittenRecord {
  key: string;
  /** 1 for a new record. */
  version: number;
  hash: string;
  /** The `_synced_at` of a rewritten row, which keeps its earlier time; by default the time of the page's request. */
  syncedAt?: TimestampText;
  /** The source text in UTF-8. */
  bytes: Buffer;
}

/** The rows of one page of records, which are written in one transaction. */
export interface PageRows {
  resource: string;
  history: HistoryPolicy;
  /** True if all rows exist already and are written again, for example after a change of the profile. */
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
  /** Returns the cell of a row that is written; null for `_deleted_at`, which is empty in such a row. */
  readonly toCell: ((record: WrittenRecord, page: PageRows) => string | number) | null;
  /** For users who choose columns. */
  readonly comment: string;
}

export const INTERNAL_COLUMNS: readonly InternalColumn[] = [
  {
    name: '_hash',
    type: 'text',
    isRequired: true,
    toCell: ({ hash }) => hash,
    comment: 'Fingerprint of the record as it came.',
  },
  {
    name: '_version',
    type: 'integer',
    isRequired: true,
    toCell: ({ version }) => version,
    comment: 'How often the record was seen changed, from 1.',
  },
  {
    name: '_synced_at',
    type: 'timestamp',
    isRequired: true,
    toCell: ({ syncedAt }, { requestedAt }) => syncedAt ?? requestedAt,
    comment: 'When the service was asked for this version, UTC.',
  },
  {
    name: '_deleted_at',
    type: 'timestamp',
    isRequired: false,
    toCell: null,
    comment: 'When the service was asked and no longer had the record, UTC; null for a live row.',
  },
];

/** Returns the internal columns of a table; a table of child rows has none. */
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

/** Returns the columns of an INSERT, in the order of the cells that `cellsToInsert` returns. */
export function insertedColumns(table: TableShape): { name: string; type: ColumnType }[] {
  const keys = table.key.map((name, at) => ({ name, type: at === 0 ? ('text' as const) : ('integer' as const) }));
  return [...keys, ...internalColumns(table).filter(({ toCell }) => toCell !== null), ...table.columns];
}

/**
 * Returns the cells of a resource's own table for an INSERT, row after row: the key, internal columns, and the values of
 * the service. A plain loop, because it runs for each cell.
 */
export function cellsToInsert({ table, width, cells }: TableRows, page: PageRows): Cell[] {
  const keyCount = table.key.length;
  const internal = internalColumns(table).flatMap(({ toCell }) => toCell ?? []);
  const inserted: Cell[] = [];
  for (const [at, record] of page.records.entries()) {
    const start = at * width;
    for (let cell = start; cell < start + keyCount; cell += 1) inserted.push(cells[cell] ?? null);
    for (const toCell of internal) inserted.push(toCell(record, page));
    for (let cell = start + keyCount; cell < start + width; cell += 1) inserted.push(cells[cell] ?? null);
  }
  return inserted;
}

/** The alias of the table in an upsert, so that also a table named `excluded` differs from the new row (`excluded`). */
export const EXISTING_ROW = '"_existing"';

/**
 * Returns the end of an INSERT into a resource's own table that overwrites existing rows. A row that was requested later
 * than this page stays, so that a page that is committed late does no harm.
 */
export function overwriteClause(table: TableShape, quote: (name: string) => string): string {
  const inserted = insertedColumns(table).slice(table.key.length);
  const updates = inserted.map(({ name }) => `${quote(name)} = excluded.${quote(name)}`);
  const emptied = internalColumns(table).flatMap(({ name, toCell }) =>
    toCell === null ? [`${quote(name)} = NULL`] : [],
  );
  return ` ON CONFLICT (${table.key.map(quote).join(', ')}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= ${EXISTING_ROW}."_synced_at"`;
}
