import { escapeIdentifier, escapeLiteral } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { FieldValues, RowFact, ViewDialect } from '../../view-dialect.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import { BODIES } from './bodies.ts';
import { converted, textOf } from './conversions.ts';

export const VIEW_DIALECT: ViewDialect = {
  types: DECLARED_TYPES,
  id: escapeIdentifier,
  literal: escapeLiteral,
  converted: (sql, from, to) => (sql === 'NULL' ? `NULL::${DECLARED_TYPES[to]}` : converted(sql, from, to)),
  text: textOf,
  declared: (sql) => sql,
  month: (sql, type) => `to_char(${sql}${type === 'date' ? '' : " AT TIME ZONE 'UTC'"}, 'YYYY-MM')`,
  day: (sql) => `${sql}::date`,
  at: (text) => `TIMESTAMPTZ ${escapeLiteral(`${text}+00`)}`,
  shown: (type) => type,
  no: 'false',
  once: (sql, use) => `(SELECT ${use('x')} FROM (SELECT ${sql} AS x OFFSET 0) AS o)`,
  bodies: BODIES,
  perRow,
  differing: (fields) => ({
    join: ` CROSS JOIN LATERAL unnest(${arraysOf(fields).join(', ')}) AS f(field, before, after)`,
    where: 'f.before IS DISTINCT FROM f.after',
    field: 'f.field',
    before: 'f.before',
    after: 'f.after',
  }),
};

/** Not VALUES, of which Postgres prepares every expression anew for each row. */
function arraysOf(fields: readonly FieldValues[]): string[] {
  return [
    textArray(fields.map(({ field }) => escapeLiteral(field))),
    textArray(fields.map(({ before }) => before)),
    textArray(fields.map(({ after }) => after)),
  ];
}

function textArray(texts: readonly string[]): string {
  return `ARRAY[${texts.join(', ')}]::text[]`;
}

/** One lookup for all facts about the same rows; the planner leaves it out where none of them is asked for. */
function perRow(
  ...[alias, facts, { from, order }]: Parameters<ViewDialect['perRow']>
): ReturnType<ViewDialect['perRow']> {
  const list = facts.map((fact) => `${FACT[fact.kind](fact, order)} AS ${escapeIdentifier(fact.name)}`);
  return {
    join: ` LEFT JOIN LATERAL (SELECT ${list.join(', ')}${from}) AS ${alias} ON true`,
    sqlOf: (name) => `${alias}.${escapeIdentifier(name)}`,
  };
}

const FACT: Readonly<Record<RowFact['kind'], (fact: RowFact, order: readonly string[]) => string>> = {
  count: () => 'count(*)',
  sum: ({ sql, type }) => SUM[type]?.(sql) ?? 'NULL',
  first: ({ sql }) => `min(${sql})`,
  last: ({ sql }) => `max(${sql})`,
  joined: ({ sql }, order) => `pg_catalog.string_agg(${sql}, ', ' ORDER BY ${order.join(', ')})`,
};

/** A sum that its type cannot hold is NULL: it must not fail the query of all others. */
const SUM: Partial<Record<ColumnType, (sql: string) => string>> = {
  integer: (sql) =>
    `CASE WHEN abs(coalesce(sum(${sql}), 0)) <= 9223372036854775807 THEN coalesce(sum(${sql}), 0)::bigint END`,
  double: (sql) =>
    `CASE WHEN coalesce(max(abs(${sql})), 0) < '1e290'::float8 THEN coalesce(sum(${sql}) FILTER (WHERE abs(${sql}) < '1e290'::float8), 0) END`,
  numeric: (sql) => `coalesce(sum(${sql}), 0)`,
};
