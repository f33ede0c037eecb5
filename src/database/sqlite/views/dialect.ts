// The SQL expressions of managed views on SQLite; the interface `ViewDialect` says what each one is for. A view promises a
// type for each of its columns: if the values of a table have another type (a price that became the text `9.90`), the view
// converts them, or shows NULL. Other programs read the views, so they call only functions that every SQLite since 3.34 has.
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { FieldValues, RowFact, RowsOf, ViewDialect } from '../../view-dialect.ts';
import { BODIES, timestampFromText } from './bodies.ts';

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

export const VIEW_DIALECT: ViewDialect = {
  types: TYPES,
  id: (name) => `"${name.replaceAll('"', '""')}"`,
  literal: (text) => `'${text.replaceAll("'", "''")}'`,
  converted,
  text: textOf,
  declared,
  // In parentheses, so that the column is not declared as the table's text is.
  day: (sql) => `(${sql})`,
  // Another column shows the exact digits as a text; this one shows the nearest number, which can be added up.
  viewType: (type) => (type === 'numeric' ? 'double' : type),
  falseLiteral: '0',
  // Without the limit, SQLite would copy the expression to each use of `x`, and compute it there.
  computeOnce: (sql, use) => `(SELECT ${use('x')} FROM (SELECT ${sql} AS x LIMIT 1))`,
  bodies: BODIES,
  differingFields: (fields) => ({
    join: `, json_each('[' || substr(${concatenated(fields.map(differenceRow))}, 2) || ']') AS f`,
    where: '1',
    field: "json_extract(f.value, '$[0]')",
    before: "json_extract(f.value, '$[1]')",
    after: "json_extract(f.value, '$[2]')",
  }),
  // One subquery per fact: SQLite runs only those that a query selects.
  perRow: (_, facts, rows) => {
    const byName = new Map(facts.map((fact) => [fact.name, FACT[fact.kind](fact, rows)]));
    return { join: '', sqlOf: (name) => byName.get(name) ?? 'NULL' };
  },
};

/**
 * Gives a value a declared type, by which programs choose how they read a column: a CAST does not declare one. SQLite takes
 * the declared type of a union from its last part, here a column of an empty table. The values do not change.
 */
function declared(sql: string, type: ColumnType): string {
  const suffix = ` UNION ALL SELECT "${TYPES[type].toLowerCase()}" FROM "_sync_types" WHERE 0)`;
  return sql.endsWith(suffix) ? sql : `(SELECT ${sql}${suffix}`;
}

function differenceRow({ field, before, after }: FieldValues): string {
  const row = `CASE WHEN x IS NOT y THEN ',' || json_array(${VIEW_DIALECT.literal(field)}, x, y) ELSE '' END`;
  return `(SELECT ${row} FROM (SELECT ${before} AS x, ${after} AS y LIMIT 1))`;
}

/** Concatenates as a tree, because SQLite limits the depth of an expression to 1,000. */
function concatenated(texts: readonly string[]): string {
  if (texts.length < 2) return texts[0] ?? "''";
  const half = Math.ceil(texts.length / 2);
  return `(${concatenated(texts.slice(0, half))} || ${concatenated(texts.slice(half))})`;
}

const FACT: Readonly<Record<RowFact['kind'], (fact: RowFact, rows: RowsOf) => string>> = {
  count: (_, { from }) => `CAST((SELECT count(*)${from}) AS BIGINT)`,
  sum: ({ sql, type }, { from }) =>
    type === 'integer'
      ? `CAST((SELECT ${integerSum(sql)}${from}) AS BIGINT)`
      : `CAST((SELECT CASE WHEN coalesce(max(abs(${sql})), 0) < 1e290 THEN total(${sql}) END${from}) AS REAL)`,
  // Not min() and max(), because a selected column keeps its declared type.
  first: ({ sql }, { from }) => `(SELECT ${sql}${from} AND ${sql} IS NOT NULL ORDER BY ${sql} LIMIT 1)`,
  last: ({ sql }, { from }) => `(SELECT ${sql}${from} AND ${sql} IS NOT NULL ORDER BY ${sql} DESC LIMIT 1)`,
  joined: ({ sql }, { from, order }) =>
    `CAST((SELECT group_concat(v, ', ') FROM (SELECT ${sql} AS v${from} ORDER BY ${order.join(', ')})) AS TEXT)`,
};

/** Adds the upper and the lower 32 bits: sum() would fail on an overflow of 64 bits, and with it the user's query. */
function integerSum(sql: string): string {
  return `CASE WHEN abs(total(${sql})) < 9.2e18 THEN coalesce((sum(${sql} >> 32) << 32) + sum(${sql} & 4294967295), 0) END`;
}

/**
 * Converts a value from one type to another; NULL if that is impossible. The value is checked first, because SQLite's CAST
 * makes 0 of a word, and its date functions read numbers as days and move the 31st of February to March.
 */
function converted(sql: string, from: ColumnType, to: ColumnType): string {
  return from === to || sql === 'NULL' ? sql : TO[to](sql, from);
}

/** Converts a value to a text, numbers by their digits. */
function textOf(sql: string, from: ColumnType): string {
  return AS_TEXT[from](sql);
}

/**
 * Returns the expression `body` over a value `v` that is computed once (see `computeOnce`). Several values are computed
 * one after the other, each from the one before, which it calls `v`.
 */
function nameValues(values: readonly string[], body: string): string {
  let from = '';
  for (const value of values) from = ` FROM (SELECT ${value} AS v${from} LIMIT 1)`;
  return `(SELECT ${body}${from})`;
}

function unchanged(sql: string): string {
  return sql;
}

const AS_TEXT: Readonly<Record<ColumnType, (sql: string) => string>> = {
  boolean: (sql) => `CASE ${sql} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END`,
  integer: (sql) => `CAST(${sql} AS TEXT)`,
  double: doubleText,
  numeric: unchanged,
  date: unchanged,
  timestamp: unchanged,
  text: unchanged,
  // Scalars without the quotes of JSON; numbers keep all their digits.
  json: (sql) =>
    `CASE WHEN json_valid(${sql}) THEN CASE json_type(${sql}) WHEN 'text' THEN json_extract(${sql}, '$') WHEN 'null' THEN NULL ELSE ${sql} END ELSE ${sql} END`,
};

/** Writes a double with the fewest digits that are read back as the same number. */
function doubleText(sql: string): string {
  const digits = [15, 16].map(
    (count) => `WHEN CAST(printf('%!.${count}g', ${sql}) AS REAL) = ${sql} THEN printf('%!.${count}g', ${sql})`,
  );
  const shortest = `CASE ${digits.join(' ')} ELSE printf('%!.17g', ${sql}) END`;
  const isInteger = `${sql} = CAST(${sql} AS INTEGER) AND abs(${sql}) < 9.2e18`;
  // The format makes 0 of NULL.
  return `CASE WHEN ${sql} IS NULL THEN NULL WHEN ${isInteger} THEN CAST(CAST(${sql} AS INTEGER) AS TEXT) ELSE replace(${shortest}, '.0e', 'e') END`;
}

/** True for a number as JSON writes it. */
const IS_NUMBER = `json_valid(v) AND (v GLOB '[-0-9]*[0-9]' OR v GLOB '[0-9]') AND length(v) <= 1000 AND v NOT GLOB '*[eE]*[0-9][0-9][0-9][0-9]'`;
const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);
const LARGEST = '1.7976931348623157e308';

/** Converts a value to the text of a number; NULL if it is not one. */
function number(sql: string, from: ColumnType): string {
  const text = textOf(sql, from);
  return NUMBERS.has(from) ? text : nameValues([text], `CASE WHEN ${IS_NUMBER} THEN v END`);
}

/** Converts a value to the nearest double. */
function double(sql: string, from: ColumnType): string {
  if (from === 'integer') return `CAST(${sql} AS REAL)`;
  return nameValues([number(sql, from)], `CASE WHEN abs(CAST(v AS REAL)) <= ${LARGEST} THEN CAST(v AS REAL) END`);
}

/**
 * Converts a value to an integer; NULL for any other number, because rounded values would make a sum silently wrong. The
 * digits decide, because as a double 1.00000000000000000001 is an integer. A number with an exponent is read as a double if
 * it is short enough to lose no digit.
 */
function integer(sql: string, from: ColumnType): string {
  if (from === 'double') return `CASE WHEN ${sql} = CAST(${sql} AS INTEGER) THEN CAST(${sql} AS INTEGER) END`;
  const trimmed = `CASE WHEN instr(v, '.') > 0 THEN rtrim(rtrim(v, '0'), '.') ELSE v END`;
  const digits = nameValues(
    [trimmed, `CASE WHEN v = '-0' THEN '0' ELSE v END`],
    'CASE WHEN CAST(CAST(v AS INTEGER) AS TEXT) = v THEN CAST(v AS INTEGER) END',
  );
  const isLost = `length(v) > 15 OR CAST(v AS REAL) <> CAST(CAST(v AS REAL) AS INTEGER) OR abs(CAST(v AS REAL)) > 9007199254740992 OR CAST(v AS REAL) = 0 AND v GLOB '*[1-9]*[eE]*'`;
  const withExponent = `CASE WHEN ${isLost} THEN NULL ELSE CAST(CAST(v AS REAL) AS INTEGER) END`;
  return nameValues([number(sql, from)], `CASE WHEN v GLOB '*[eE]*' THEN ${withExponent} ELSE ${digits} END`);
}

/** Converts a text in the form of table cells or of ISO 8601 to a time in UTC. A time without a zone is read as UTC. */
function moment(sql: string, from: ColumnType): string {
  return timestampFromText(`SELECT ${textOf(sql, from)} AS s`, null);
}

const WORDS = `WHEN 'true' THEN 1 WHEN 'false' THEN 0 WHEN '1' THEN 1 WHEN '0' THEN 0`;

const TO: Readonly<Record<ColumnType, (sql: string, from: ColumnType) => string>> = {
  boolean: (sql, from) => `CASE ${textOf(sql, from)} ${WORDS} END`,
  integer,
  double,
  numeric: number,
  // Its day in UTC, as the timestamp itself is shown.
  date: (sql, from) => (from === 'timestamp' ? `substr(${sql}, 1, 10)` : `substr(${moment(sql, from)}, 1, 10)`),
  timestamp: (sql, from) => (from === 'date' ? `${sql} || ' 00:00:00'` : moment(sql, from)),
  text: textOf,
  json,
};

function json(sql: string, from: ColumnType): string {
  const isText = from === 'date' || from === 'timestamp' || from === 'text';
  return isText ? `CASE WHEN ${sql} IS NOT NULL THEN json_quote(${sql}) END` : textOf(sql, from);
}
