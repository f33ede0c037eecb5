import type { ColumnType } from '../../../model/vocabulary.ts';
import type { FieldValues, RowFact, RowsOf, ViewDialect } from '../../view-dialect.ts';
import { BODIES } from './bodies.ts';
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
 * Views of SQLite are read by other programs, so they call only what every SQLite since 3.34 has. A column that is cast
 * has an affinity but no declared type.
 */
export const VIEW_DIALECT: ViewDialect = {
  types: TYPES,
  id: (name) => `"${name.replaceAll('"', '""')}"`,
  literal: (text) => `'${text.replaceAll("'", "''")}'`,
  converted: (sql, from, to) => (sql === 'NULL' ? 'NULL' : converted(sql, from, to)),
  text: textOf,
  declared,
  month: (sql) => `substr(${sql}, 1, 7)`,
  // In parentheses, so that the column is not declared as the table's text is.
  day: (sql) => `(${sql})`,
  at: (text) => `'${text}'`,
  // The digits stand in a column of text; a number is what can be added up.
  shown: (type) => (type === 'numeric' ? 'double' : type),
  no: '0',
  // A limit keeps SQLite from writing the expression into each place that names it.
  once: (sql, use) => `(SELECT ${use('x')} FROM (SELECT ${sql} AS x LIMIT 1))`,
  bodies: BODIES,
  differing: (fields) => ({
    join: `, json_each('[' || substr(${concatenated(fields.map(rowOf))}, 2) || ']') AS f`,
    where: '1',
    field: "json_extract(f.value, '$[0]')",
    before: "json_extract(f.value, '$[1]')",
    after: "json_extract(f.value, '$[2]')",
  }),
  perRow: (_, facts, rows) => ({ join: '', sqlOf: factsPerRow(facts, rows) }),
};

/**
 * SQLite takes the type of a subquery from its last part, here a column of an empty table that is never read. Values stay
 * as they are, and are compared as those of a table's column of the type are.
 */
function declared(sql: string, type: ColumnType): string {
  const behind = ` UNION ALL SELECT "${TYPES[type].toLowerCase()}" FROM "_sync_types" WHERE 0)`;
  return sql.endsWith(behind) ? sql : `(SELECT ${sql}${behind}`;
}

function rowOf({ field, before, after }: FieldValues): string {
  const row = `CASE WHEN x IS NOT y THEN ',' || json_array(${VIEW_DIALECT.literal(field)}, x, y) ELSE '' END`;
  return `(SELECT ${row} FROM (SELECT ${before} AS x, ${after} AS y LIMIT 1))`;
}

/** As a tree: an expression may not be deeper than 1,000. */
function concatenated(texts: readonly string[]): string {
  if (texts.length < 2) return texts[0] ?? "''";
  const half = Math.ceil(texts.length / 2);
  return `(${concatenated(texts.slice(0, half))} || ${concatenated(texts.slice(half))})`;
}

/** Each fact is a query of its own, of which SQLite runs those that are asked for. */
function factsPerRow(facts: readonly RowFact[], rows: RowsOf): (name: string) => string {
  const byName = new Map(facts.map((fact) => [fact.name, FACT[fact.kind](fact, rows)]));
  return (name) => byName.get(name) ?? 'NULL';
}

const FACT: Readonly<Record<RowFact['kind'], (fact: RowFact, rows: RowsOf) => string>> = {
  count: (_, { from }) => `CAST((SELECT count(*)${from}) AS BIGINT)`,
  sum: ({ sql, type }, { from }) =>
    type === 'integer'
      ? `CAST((SELECT ${wholeSum(sql)}${from}) AS BIGINT)`
      : `CAST((SELECT CASE WHEN coalesce(max(abs(${sql})), 0) < 1e290 THEN total(${sql}) END${from}) AS REAL)`,
  // Not min() and max(): what is picked keeps its declared type.
  first: ({ sql }, { from }) => `(SELECT ${sql}${from} AND ${sql} IS NOT NULL ORDER BY ${sql} LIMIT 1)`,
  last: ({ sql }, { from }) => `(SELECT ${sql}${from} AND ${sql} IS NOT NULL ORDER BY ${sql} DESC LIMIT 1)`,
  joined: ({ sql }, { from, order }) =>
    `CAST((SELECT group_concat(v, ', ') FROM (SELECT ${sql} AS v${from} ORDER BY ${order.join(', ')})) AS TEXT)`,
};

/** In halves: sum() of whole numbers fails where 64 bits do not hold it, and with it the query of all others. */
function wholeSum(sql: string): string {
  return `CASE WHEN abs(total(${sql})) < 9.2e18 THEN coalesce((sum(${sql} >> 32) << 32) + sum(${sql} & 4294967295), 0) END`;
}
