import type { ColumnType } from '../../model/vocabulary.ts';
import type { View, ViewColumn } from '../view.ts';

/** A column of a view that shows what we know ourselves: name, type, SQL, description. */
export type OwnColumn = readonly [name: string, type: ColumnType, sql: string, description: string];

/** A view over own tables, of the whole source. */
export function ownView(name: string, description: string, columns: readonly OwnColumn[], from: string): View {
  return { name, resource: null, description, columns: columns.map(columnOf), from };
}

function columnOf([name, type, sql, description]: OwnColumn): ViewColumn {
  return { name, type, sql, description, source: null, references: null };
}
