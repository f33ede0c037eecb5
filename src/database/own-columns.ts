import type { TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import type { PageRows, WrittenRecord } from './warehouse.ts';

/** An internal column of every resource's own table, right after its key. */
export interface OwnColumn {
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
