import type { ColumnType } from '../../../model/vocabulary.ts';
import type { ViewDialect } from '../../view-dialect.ts';
import { converted, textOf } from './conversions.ts';

const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'BOOLEAN',
  integer: 'BIGINT',
  double: 'DOUBLE',
  numeric: 'DOUBLE',
  date: 'DATE',
  timestamp: 'TIMESTAMP',
  text: 'TEXT',
  json: 'TEXT',
};

/**
 * Views of SQLite are read by other programs, so they call only what every SQLite since 3.38 has. A column that is
 * cast has an affinity but no declared type: what comes out as a text of the right form is read right by all clients.
 */
export const VIEW_DIALECT: ViewDialect = {
  types: TYPES,
  id: (name) => `"${name.replaceAll('"', '""')}"`,
  literal: (text) => `'${text.replaceAll("'", "''")}'`,
  moment: (sql) => sql,
  converted: (sql, from, to) => (sql === 'NULL' ? 'NULL' : converted(sql, from, to)),
  text: textOf,
  // The digits stand in a column of text; a number is what can be added up.
  shown: (type) => (type === 'numeric' ? 'double' : type),
};
