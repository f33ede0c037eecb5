import type { ColumnType } from '../../../model/vocabulary.ts';
import type { FieldValues, RowFact, RowsOf, ViewDialect } from '../../view-dialect.ts';
import { BODIES } from './bodies.ts';

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
  converted: (sql, from, to) => (sql === 'NULL' ? 'NULL' : CONVERT[to](sql, from)),
  text: (sql, from) => TEXT_OF[from]?.(sql) ?? `CAST(${sql} AS TEXT)`,
  month: (sql) => `substr(${sql}, 1, 7)`,
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
    field: "f.value ->> '$[0]'",
    before: "f.value ->> '$[1]'",
    after: "f.value ->> '$[2]'",
  }),
  perRow: (_, facts, rows) => ({ join: '', sqlOf: factsPerRow(facts, rows) }),
};

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

const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

const TEXT_OF: Partial<Record<ColumnType, (sql: string) => string>> = {
  boolean: (sql) => `CASE ${sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END`,
  text: (sql) => sql,
  date: (sql) => sql,
  timestamp: (sql) => sql,
  numeric: (sql) => sql,
  json: jsonText,
};

/** Texts without their quotes, as those of a column of texts. */
function jsonText(sql: string): string {
  return `CASE WHEN json_valid(${sql}) THEN ${sql} ->> '$' ELSE ${sql} END`;
}

/** A JSON text's value if it is none of JSON's own kinds. */
function plain(sql: string, from: ColumnType): string {
  return from === 'json'
    ? `CASE WHEN json_valid(${sql}) THEN CASE WHEN json_type(${sql}) NOT IN ('object', 'array') THEN ${sql} ->> '$' END ELSE ${sql} END`
    : sql;
}

/** A word to a number would be 0 by CAST: only what is written like a number is converted. */
const LOOKS_LIKE_NUMBER = (sql: string): string =>
  `trim(${sql}) GLOB '[-+0-9.]*' AND trim(${sql}) GLOB '*[0-9]*' AND NOT trim(${sql}) GLOB '*[^-+0-9.eE]*' AND NOT trim(${sql}) GLOB '?*[0-9.][-+]*'`;

function number(sql: string, from: ColumnType, cast: string): string {
  if (NUMBERS.has(from)) return `CAST(${sql} AS ${cast})`;
  const value = plain(sql, from);
  return `CASE WHEN ${LOOKS_LIKE_NUMBER(value)} THEN CAST(${value} AS ${cast}) END`;
}

/**
 * A date or time as services send it, as a timestamp: a column that became a text has them as they were sent. SQLite takes
 * `now`, numbers and the 30th of February for times as well, and rounds below the millisecond, where tables cut off.
 */
function moment(value: string): string {
  const day = `substr(${value}, 1, 10)`;
  const isMoment = `${value} >= '0001' AND date(${day}) = ${day} AND datetime(${value}) IS NOT NULL AND substr(${value}, 12, 2) < '24'`;
  const seconds = `CASE WHEN substr(${value}, 17, 1) = ':' THEN substr(${value}, 17, 3) ELSE '' END`;
  const zone = `CASE WHEN substr(${value}, 11) GLOB '*[-+][0-9][0-9]:[0-9][0-9]' THEN substr(${value}, -6) ELSE '' END`;
  const ms = `substr(substr(CAST('1' || substr(${value}, 21, 3) AS INTEGER), 2) || '00', 1, 3)`;
  const fraction = `CASE WHEN substr(${value}, 20, 1) = '.' AND ${ms} <> '000' THEN '.' || ${ms} ELSE '' END`;
  return `CASE WHEN ${isMoment} THEN datetime(substr(${value}, 1, 16) || ${seconds} || ${zone}) || ${fraction} END`;
}

const CONVERT: Readonly<Record<ColumnType, (sql: string, from: ColumnType) => string>> = {
  boolean: (sql, from) => {
    const value = plain(sql, from);
    return `CASE ${value} WHEN 'true' THEN 1 WHEN 'false' THEN 0 WHEN 1 THEN 1 WHEN 0 THEN 0 END`;
  },
  // What a whole number cannot hold is none.
  integer: (sql, from) => {
    const value = number(sql, from, 'REAL');
    return `CASE WHEN ${value} = CAST(${value} AS INTEGER) THEN CAST(${plain(sql, from)} AS INTEGER) END`;
  },
  double: (sql, from) => number(sql, from, 'REAL'),
  numeric: (sql, from) => number(sql, from, 'REAL'),
  date: (sql, from) => (from === 'timestamp' ? `date(${sql})` : `substr(${moment(plain(sql, from))}, 1, 10)`),
  timestamp: (sql, from) => moment(plain(sql, from)),
  text: (sql, from) => VIEW_DIALECT.text(sql, from),
  json: (sql, from) => (from === 'json' ? sql : `json_quote(${sql})`),
};

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
