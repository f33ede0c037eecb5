// The tables, columns and rows that are made from the records of a service: the shape of a resource, and its changes.
import type { ColumnType } from './vocabulary.ts';

/** The path from the record to the values of a column or table; `[]` means "each element". */
export type SourcePath = readonly string[];

/** A column made from a source field. Managed columns (`_synced_at`, ...) and keys are not among them. */
export interface Column {
  /** The name in the warehouse: snake_case, unique within its table, at most 63 bytes. */
  name: string;
  path: SourcePath;
  type: ColumnType;
}

/** A table made from a resource, or from an array inside its records. The index in `columns` is the index in a row. */
export interface TableShape {
  name: string;
  /** Path of the array this child table holds, e.g. `['tags', '[]']`; empty for the resource's own table. */
  path: SourcePath;
  /** Key columns in order: the record's key, then one position per array level. */
  key: readonly string[];
  columns: Column[];
}

/** All tables of one resource, its own table first. Immutable: a changed shape is a new object. */
export interface ResourceShape {
  resource: string;
  tables: TableShape[];
}

/** A value for the database, converted to its column's type. Booleans stay booleans. */
export type Cell = string | number | bigint | boolean | null;

/** One step of schema evolution; `from` is null if the column or table is new. */
export interface ShapeChange {
  table: string;
  column: Column;
  from: ColumnType | null;
}

/** Rows of one table in one flat list: `width` cells per row, key cells first, then `columns` in order. */
export interface TableRows {
  table: TableShape;
  width: number;
  cells: Cell[];
}

/** A column lost its values, seems to have been renamed, or has values again. */
export type ValueChange = 'gone' | 'renamed?' | 'back';

export interface ColumnChange {
  /** Its type before; null if it is new. */
  from: string | null;
  to: string;
  /** Absent for a column that was added or widened. */
  kind?: ValueChange;
  /** The column that seems to have the values now, if `kind` is `renamed?`. */
  renamed_to?: string;
}

/** Converts a row of `_sync_schema_changes`. */
export function toColumnChange(row: {
  from_type: string | null;
  to_type: string;
  kind: ValueChange | null;
  renamed_to: string | null;
}): ColumnChange {
  const { from_type: from, to_type: to, kind, renamed_to } = row;
  return { from, to, ...(kind === null ? {} : { kind }), ...(renamed_to === null ? {} : { renamed_to }) };
}

/** Formats `new, text`, `integer → text` or `no values any more`. */
export function formatColumnChange({ from, to, kind, renamed_to: renamedTo }: ColumnChange): string {
  if (kind === 'back') return 'has values again';
  if (kind !== undefined) return `no values any more${renamedTo === undefined ? '' : `, ${renamedTo} may have them`}`;
  return from === null ? `new, ${to}` : `${from} → ${to}`;
}
