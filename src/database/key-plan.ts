import type { TableShape } from '../model/table.ts';

/** How the tables of one resource belong to each other and to others, and what they are to be found by. */
export interface KeyPlan {
  /** All tables of the resource, its own first. */
  tables: readonly TableShape[];
  /** Columns of these tables that hold the key of a resource. */
  references: readonly Reference[];
  /** Indexes of single columns of these tables that should be there; of all others, ours go. */
  indexes: readonly ColumnIndex[];
}

/** A column and the key that it holds. */
export interface Reference {
  table: TableShape;
  column: string;
  /** Null if that resource has no table yet. */
  to: { table: string; column: string } | null;
}

export interface ColumnIndex {
  table: TableShape;
  column: string;
  /**
   * `chosen` by a person; `filter` by which people choose and sort rows; `reference` by which they join them, and
   * `window` by which reports come and are added up: of the last two databases differ in what pays.
   */
  why: 'chosen' | 'filter' | 'reference' | 'window';
}

/** How our indexes begin; behind it, `table.column`: no name has a dot in it. */
export const INDEX = '_sync_index_';

export function columnText({ table, column }: Pick<ColumnIndex, 'table' | 'column'>): string {
  return `${table.name}.${column}`;
}

/** The table whose rows a child table's rows belong to, by all of its key; null for a resource's own table. */
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

/** What we call a key of ours that leads from a child table to its parent. */
export const PARENT_KEY = '_sync_parent_';
