import type { ColumnType } from '../../../model/vocabulary.ts';

/** Declared types, chosen by what BI clients read right. Times are moments; cells are UTC text. */
export const DECLARED_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  integer: 'bigint',
  double: 'double precision',
  numeric: 'numeric',
  date: 'date',
  timestamp: 'timestamptz',
  text: 'text',
  json: 'jsonb',
};
