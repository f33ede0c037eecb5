import type { ColumnType } from '../../model/vocabulary.ts';
import type { ViewColumn } from '../view.ts';

/** A column of a view that is none of the source's. */
export function ownColumn(name: string, type: ColumnType, sql: string, description: string | null): ViewColumn {
  return { name, type, sql, description, source: null, references: null };
}
