import type { ResourceShape, TableShape } from '../model/table.ts';
import type { Relations } from '../source/profile.ts';
import type { Relation } from './view-model.ts';

/**
 * The relations of a profile whose columns are there: from a column of any table to the key of a resource's own table.
 * The others are left out; `content-sync check` tells of them.
 */
export function resolveRelations(declared: Relations, shapes: readonly ResourceShape[]): Relation[] {
  const tables = shapes.flatMap(({ resource, tables: each }) => each.map((table) => ({ resource, table })));
  const place = (text: string): Relation['from'] | null => {
    const [name, column = ''] = text.split('.');
    const found = tables.find(({ table }) => table.name === name);
    return found === undefined || !hasColumn(found.table, column) ? null : { ...found, column };
  };
  return Object.entries(declared).flatMap(([source, target]) => {
    const [from, to] = [place(source), place(target)];
    const isKey = to !== null && to.table.path.length === 0 && to.table.key[0] === to.column;
    return from === null || to === null || !isKey ? [] : [{ from, to }];
  });
}

/** Why a relation is left out, as the rest of a sentence. */
export function unresolved(source: string, target: string, shapes: readonly ResourceShape[]): string {
  const tables = shapes.flatMap((shape) => shape.tables);
  for (const text of [source, target]) {
    const [name = '', column = ''] = text.split('.');
    const table = tables.find((each) => each.name === name);
    if (table === undefined) return `there is no table ${name} yet`;
    if (!hasColumn(table, column)) return `${name} has no column ${column} yet`;
  }
  return `${target} is not the key of a resource's own table`;
}

function hasColumn(table: TableShape, name: string): boolean {
  return table.key.includes(name) || table.columns.some((column) => column.name === name);
}
