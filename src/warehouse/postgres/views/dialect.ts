import { escapeIdentifier, escapeLiteral } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { FieldValues, RowFact, ViewDialect } from '../../view-dialect.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import { BODIES } from './bodies.ts';

export const VIEW_DIALECT: ViewDialect = {
  types: DECLARED_TYPES,
  id: escapeIdentifier,
  literal: escapeLiteral,
  moment: (sql) => sql,
  converted: (sql, from, to) => (sql === 'NULL' ? `NULL::${DECLARED_TYPES[to]}` : CONVERT[to](sql, from)),
  text: (sql, from) => TEXT_OF[from]?.(sql) ?? `${sql}::text`,
  month: (sql, type) => `to_char(${sql}${type === 'date' ? '' : " AT TIME ZONE 'UTC'"}, 'YYYY-MM')`,
  at: (text) => `TIMESTAMPTZ ${escapeLiteral(`${text}+00`)}`,
  shown: (type) => type,
  no: 'false',
  once: (sql, use) => `(SELECT ${use('x')} FROM (SELECT ${sql} AS x OFFSET 0) AS o)`,
  bodies: BODIES,
  perRow,
  differing: (fields) => ({
    join: ` CROSS JOIN LATERAL (VALUES ${fields.map(rowOf).join(', ') || NO_ROW}) AS f(field, before, after)`,
    where: 'f.before IS DISTINCT FROM f.after',
    field: 'f.field',
    before: 'f.before',
    after: 'f.after',
  }),
};

/** Before the first column. */
const NO_ROW = '(NULL::text, NULL::text, NULL::text)';

function rowOf({ field, before, after }: FieldValues): string {
  return `(${escapeLiteral(field)}::text, ${before}, ${after})`;
}

/** Whatever the reader's settings are. */
const TEXT_OF: Partial<Record<ColumnType, (sql: string) => string>> = {
  json: (sql) => `(${sql} #>> '{}')`,
  timestamp: momentText,
  date: (sql) => `to_char(${sql}::timestamp, 'YYYY-MM-DD')`,
};

/** As the warehouse writes times, whatever the reader's zone is. */
function momentText(sql: string): string {
  return `replace(to_char(${sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), '.000', '')`;
}

/** A number as JSON writes it. */
const NUMBER = String.raw`'^\s*-?(0|[1-9]\d{0,254})(\.\d{1,255})?([eE][-+]?\d{1,2})?\s*$'`;
const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

function plain(sql: string, from: ColumnType): string {
  return from === 'text' ? sql : VIEW_DIALECT.text(sql, from);
}

/** As a numeric; NULL if it is no number. */
function number(sql: string, from: ColumnType): string {
  if (NUMBERS.has(from)) return `${sql}::numeric`;
  const value = plain(sql, from);
  return `CASE WHEN ${value} ~ ${NUMBER} THEN ${value}::numeric END`;
}

const CONVERT: Readonly<Record<ColumnType, (sql: string, from: ColumnType) => string>> = {
  boolean: (sql, from) =>
    `CASE ${plain(sql, from)} WHEN 'true' THEN true WHEN 'false' THEN false WHEN '1' THEN true WHEN '0' THEN false END`,
  // What a whole number cannot hold is none.
  integer: (sql, from) => {
    const value = `(${number(sql, from)})`;
    return `CASE WHEN ${value} = trunc(${value}) AND abs(${value}) <= 9223372036854775807 THEN ${value}::bigint END`;
  },
  double: (sql, from) => {
    const value = `(${number(sql, from)})`;
    return `CASE WHEN abs(${value}) < 1e308 THEN ${value}::double precision END`;
  },
  numeric: (sql, from) => number(sql, from),
  date: (sql, from) => `(${CONVERT.timestamp(sql, from)} AT TIME ZONE 'UTC')::date`,
  timestamp: (sql, from) => {
    if (from === 'timestamp') return sql;
    if (from === 'date') return `(${sql}::timestamp AT TIME ZONE 'UTC')`;
    const value = plain(sql, from);
    return `(CASE WHEN ${value} ~ ${MOMENT} THEN (regexp_replace(${value}, ${BELOW_MS}, '\\1') || ${zoneFor(value)})::timestamptz END)`;
  },
  text: (sql, from) => VIEW_DIALECT.text(sql, from),
  json: (sql, from) => (from === 'json' ? sql : `to_jsonb(${sql})`),
};

/** What has to stand behind a time for it to name its zone. */
function zoneFor(value: string): string {
  return `CASE WHEN length(${value}) = 10 THEN ' 00:00+00' WHEN ${value} ~ 'T.*(Z|[-+]..:?..)$| .*(Z|[-+]..:?..)$' THEN '' ELSE '+00' END`;
}

const LEAP_YEAR = String.raw`(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)`;
const DATE = String.raw`(?!0000)(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|${LEAP_YEAR}-02-29)`;
/** Dates and times as services send them: a column that became a text has them as they were sent. */
const MOMENT = String.raw`'^${DATE}([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[-+](0\d|1[0-4]):?[0-5]\d)?)?$'`;
/** Cut off, as tables do. */
const BELOW_MS = String.raw`'(\.\d{3})\d+'`;

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
  joined: ({ sql }, order) => `string_agg(${sql}, ', ' ORDER BY ${order.join(', ')})`,
};

/** A sum that its type cannot hold is NULL: it must not fail the query of all others. */
const SUM: Partial<Record<ColumnType, (sql: string) => string>> = {
  integer: (sql) =>
    `CASE WHEN abs(coalesce(sum(${sql}), 0)) <= 9223372036854775807 THEN coalesce(sum(${sql}), 0)::bigint END`,
  double: (sql) =>
    `CASE WHEN coalesce(max(abs(${sql})), 0) < '1e290'::float8 THEN coalesce(sum(${sql}) FILTER (WHERE abs(${sql}) < '1e290'::float8), 0) END`,
  numeric: (sql) => `coalesce(sum(${sql}), 0)`,
};
