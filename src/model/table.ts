// The types of the tables that are made from the records of a service, for all layers: shape, rows and changes of the shape.
//
// Example: the records of `content` have a title and a list of tags. Then its shape has two tables: `content` with a column
// `title`, and the child table `content_tags` with one row per tag.
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

/** A table of a resource, or a child table of a list in its records. */
export interface TableShape {
  name: string;
  /** Path of the list that a child table holds, such as `['tags', '[]']`; empty for the table of the resource. */
  path: SourcePath;
  /** The key columns in order: the key of the record, then one position per level of lists. */
  key: readonly string[];
  columns: Column[];
}

/** All tables of a resource, child tables after their parents. Immutable: a changed shape is a new object. */
export interface ResourceShape {
  resource: string;
  tables: TableShape[];
}

/** A value for the database, converted to its column's type. Booleans stay booleans. */
export type Cell = string | number | bigint | boolean | null;

/** A column that is added or gets a wider type; `from` is its type before, null if it is new. */
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

/** `gone`: no record has a value for the column any more. `renamed?`: another column seems to have its values now. */
export type ValueChange = 'gone' | 'renamed?' | 'back';

export interface ColumnChange {
  /** The type before; null if the column is new. */
  from: string | null;
  to: string;
  /** Absent for a column that was added or widened. */
  kind?: ValueChange;
  /** The column that seems to have the values now, if `kind` is `renamed?`. */
  renamed_to?: string;
}

/** Converts a row of the table `_sync_schema_changes`. */
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
