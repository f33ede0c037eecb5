import type { TableShape } from '../model/table.ts';

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
