import type { TableShape } from '../model/table.ts';

/** The foreign keys and indexes of the tables of one resource. */
export interface KeyPlan {
  /** All tables of the resource, its own first. */
  tables: readonly TableShape[];
  /** Columns of these tables that hold the key of a resource. */
  references: readonly KeyReference[];
  /** The wanted indexes of single columns; other managed indexes are dropped. */
  indexes: readonly ColumnIndex[];
}

/** A column and the key that it refers to. */
export interface KeyReference {
  table: TableShape;
  column: string;
  /** Null if that resource has no table yet. */
  to: { table: string; column: string } | null;
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

/** Returns the table of the parent rows of a child table; null for a resource's own table. */
export function parentTable(table: TableShape, tables: readonly TableShape[]): TableShape | null {
  const isParent = ({ path, key }: TableShape): boolean =>
    path.length < table.path.length &&
    key.length === table.key.length - 1 &&
    path.every((part, at) => part === table.path[at]);
  return tables.find(isParent) ?? null;
}

/** The columns of a child table that hold its parent's key. */
export function parentKey(table: TableShape): readonly string[] {
  return table.key.slice(0, -1);
}

/** The prefix of foreign keys from a child table to its parent. */
export const PARENT_KEY = '_sync_parent_';
