import type { TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import type { PageRows, WrittenRecord } from './warehouse.ts';

/**
 * A column of ours that every resource's own table has, right after its key. Tables, writers, copies and comments of all
 * databases follow from these declarations.
 */
export interface OwnColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** True if no row lacks it. */
  readonly isRequired: boolean;
  /** Its cell in a row that is written, as for a column of a source; null if the cell is empty then. */
  readonly stamp: ((record: WrittenRecord, page: PageRows) => string | number) | null;
  /** For people who choose columns. */
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

/** The columns of ours that a table has. */
export function ownColumns({ path }: TableShape): readonly OwnColumn[] {
  return path.length === 0 ? OWN_COLUMNS : [];
}

/** Those of them that a row is stamped with when it is written, in order. */
export function stampedColumns(table: TableShape): readonly Stamped[] {
  return ownColumns(table).filter((column): column is Stamped => column.stamp !== null);
}

/** Those that are empty in a row that was just written. */
export function emptiedColumns(table: TableShape): readonly OwnColumn[] {
  return ownColumns(table).filter(({ stamp }) => stamp === null);
}
