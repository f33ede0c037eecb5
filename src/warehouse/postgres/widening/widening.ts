import type { Column, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { textHash } from '../../../shape/records/fingerprint.ts';
import type { ShapeGrowth } from '../../warehouse.ts';
import { converted } from './converted-values.ts';
import { DECLARED_TYPES, quoted } from './ddl.ts';

/** The columns of one table that are to hold more than they do. */
export interface Widening {
  table: TableShape;
  columns: readonly WiderColumn[];
}

export interface WiderColumn {
  column: Column;
  from: ColumnType;
}

const SHADOW_COLUMN = '_sync_wider_';

/** The part of a growth that widens existing columns. */
export function wideningsOf({ before, changes }: ShapeGrowth): Widening[] {
  return (before?.tables ?? []).flatMap((table) => {
    const columns = changes.flatMap(({ table: name, column, from }) =>
      name === table.name && from !== null ? [{ column, from }] : [],
    );
    return columns.length === 0 ? [] : [{ table, columns }];
  });
}

/** The name of a column that is filled beside another and then takes its place: the same in every try. */
export function shadowColumn({ column }: WiderColumn): string {
  return `${SHADOW_COLUMN}${textHash(JSON.stringify([column.name, column.type]))}`;
}

/** SQL that is true for the names of such columns, whichever run began them. */
export const IS_SHADOW_COLUMN = `starts_with(attname, '${SHADOW_COLUMN}')`;

export function widerType({ column }: WiderColumn): string {
  return DECLARED_TYPES[column.type];
}

/** The stored value as the wider column holds it. */
export function widerValue({ column, from }: WiderColumn): string {
  return converted(quoted(column.name), from, column.type);
}

/** One statement, so that the table is written once. */
export function alterInPlace({ table, columns }: Widening): string {
  const actions = columns.map(
    (wider) => `ALTER COLUMN ${quoted(wider.column.name)} TYPE ${widerType(wider)} USING ${widerValue(wider)}`,
  );
  return `ALTER TABLE ${quoted(table.name)} ${actions.join(', ')}`;
}
