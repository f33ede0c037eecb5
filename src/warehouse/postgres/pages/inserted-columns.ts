import type { Column, TableShape } from '../../../model/table.ts';
import { stampedColumns } from '../../own-columns.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';

export interface TypedColumn {
  name: string;
  type: string;
}

/** The columns of a row as they are inserted. */
export function insertedColumns(table: TableShape): TypedColumn[] {
  return [...keyColumns(table), ...declaredColumns(stampedColumns(table)), ...declaredColumns(table.columns)];
}

export function keyColumns({ key }: TableShape): TypedColumn[] {
  return declaredColumns(key.map((name, index) => ({ name, type: index === 0 ? 'text' : 'integer' })));
}

export function declaredColumns(columns: readonly Pick<Column, 'name' | 'type'>[]): TypedColumn[] {
  return columns.map(({ name, type }) => ({ name, type: DECLARED_TYPES[type] }));
}
