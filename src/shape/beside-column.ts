import type { Column, ResourceShape, ShapeChange, TableShape } from '../model/table.ts';
import { samePath } from './columns/source-path.ts';
import { columnName } from './columns/column-name.ts';

/** A column of a table. */
export interface ColumnPlace {
  table: string;
  column: string;
}

/** A shape and how it is reached from the one before it. */
export interface Growth {
  after: ResourceShape;
  changes: readonly ShapeChange[];
}

/**
 * The growth with columns of their own for what was to widen in place: the columns that stand keep their names and
 * types, and are filled with what still fits. Null if nothing of this growth widens any of them.
 */
export function besideColumns(growth: Growth, inUse: readonly ColumnPlace[]): Growth | null {
  const blocked = new Set(inUse.map(({ table, column }) => `${table} ${column}`));
  let { after } = growth;
  const changes = growth.changes.map((change): ShapeChange => {
    const { table: name, column, from, beside } = change;
    const table = after.tables.find((each) => each.name === name);
    const isBlocked = from !== null && beside === undefined && blocked.has(`${name} ${column.name}`);
    if (!isBlocked || table === undefined) return change;
    const kept: Column = { ...column, type: from };
    const wider: Column = { ...column, name: nameBeside(table, column) };
    const columns = table.columns.map((each) => (each.name === column.name ? wider : each));
    const grown = { ...table, columns, kept: [...(table.kept ?? []), kept] };
    after = { ...after, tables: after.tables.map((each) => (each === table ? grown : each)) };
    return { table: name, column: wider, from, beside: kept };
  });
  return after === growth.after ? null : { after, changes };
}

/** Such as `reading_minutes_text`, by the rules for all columns. */
function nameBeside(table: TableShape, column: Column): string {
  const all = [...table.columns, ...(table.kept ?? [])].map(({ name }) => name);
  return columnName([shownName(table, column), column.type], new Set([...table.key, ...all]));
}

/** The name that people know a column by: that of the first one that held its values. */
export function shownName({ kept = [] }: TableShape, column: Column): string {
  return kept.find(({ path }) => samePath(path, column.path))?.name ?? column.name;
}
