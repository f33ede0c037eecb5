import { escapeIdentifier, escapeLiteral } from 'pg';
import type { ViewDialect } from '../../view-dialect.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import { converted, textOf } from './conversions.ts';

export const VIEW_DIALECT: ViewDialect = {
  types: DECLARED_TYPES,
  id: escapeIdentifier,
  literal: escapeLiteral,
  moment: (sql) => `(${sql} AT TIME ZONE 'UTC')`,
  converted: (sql, from, to) => (sql === 'NULL' ? `NULL::${DECLARED_TYPES[to]}` : converted(sql, from, to)),
  text: textOf,
  shown: (type) => type,
};
