// History views show the earlier versions of a record: they read the value of each column from the stored JSON body. This
// file builds SQLite's expressions for that, which must give the value that the table had. Example: the column `price` of
// the type numeric, in the body `{"price": 1.50}`. First `jsonTextAt` reads the JSON text `1.50`, then `VALUE.numeric`
// converts it to `1.5`. In the expressions, `v` is a version, `r` the JSON text of a value as it was sent (a string with
// its quotes), and `s` the content of a JSON string.
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { BodyDialect } from '../../view-dialect.ts';
import { timeZone, type TimeZone } from '../../../model/time-zone.ts';

const BODY = 'v."body"';

/** Calls only JSON functions that every SQLite since 3.34 has, because other programs read the views. */
export const BODIES: BodyDialect = {
  from: ' FROM "_sync_versions" AS v',
  value: (path, type, zone) => VALUE[type](`(SELECT ${jsonTextAt(path)} AS r LIMIT 1)`, zone),
  list: (path) =>
    `(SELECT CASE WHEN r GLOB '[[]*' THEN ${cleanJson('r')} END FROM (SELECT ${jsonTextAt(path)} AS r LIMIT 1))`,
};

/**
 * The JSON text at a path; NULL or 'null' if there is none. `jsonAt` is fast and reads most of them. `keyByKey` reads the
 * others: a key with quotes or control characters; a key that a body has twice, because the last one counts; and a key
 * beyond ASCII, because older versions of SQLite do not find it if it is written with escapes.
 */
function jsonTextAt(path: readonly string[]): string {
  const slow = keyByKey(path);
  const whenInvalid = `WHEN NOT json_valid(${BODY}) THEN NULL`;
  if (path.some((key) => key === '' || /["\\\p{Cc}]/u.test(key))) return `CASE ${whenInvalid} ELSE ${slow} END`;
  const whenRepeated = `WHEN (${mayHaveRepeatedKey(path)}) AND ${hasRepeatedKey(path)} THEN ${slow}`;
  const isAscii = path.every((key) => ASCII.test(key));
  const once = isAscii ? jsonAt(path) : `coalesce(nullif(${jsonAt(path)}, 'null'), ${slow})`;
  return `CASE ${whenInvalid} ${whenRepeated} ELSE ${once} END`;
}

/**
 * `json_extract` with one path turns a number into a double. With two it returns an array of both values as they are
 * written: `[null,value]`, because no array has enough elements for the first path.
 */
function jsonAt(path: readonly string[]): string {
  const array = `json_extract(${BODY}, '$[999999999]', ${jsonPath(path)})`;
  // Takes what follows the 6 bytes `[null,`, without the last one: a negative length counts backwards. A BLOB is faster,
  // because SQLite would count the characters of a text.
  return `CAST(substr(substr(CAST(${array} AS BLOB), -1, -1000000000), 7) AS TEXT)`;
}

const ASCII = /^[A-Za-z0-9_-]*$/;

/** A fast check that is false for most bodies: true if a key of the path occurs twice in the text of its object. */
function mayHaveRepeatedKey(path: readonly string[]): string {
  const checks = path.map((key, at) => {
    const parents = path.slice(0, at);
    const isTwice = `GLOB ${literal(`*"${escapeGlob(key)}"*"${escapeGlob(key)}"*`)}`;
    const hasFastParent = at > 0 && parents.every((each) => ASCII.test(each));
    return `${BODY} ${isTwice}${hasFastParent ? ` AND ${jsonAt(parents)} ${isTwice}` : ''}`;
  });
  return checks.join(' OR ');
}

function jsonPath(path: readonly string[]): string {
  return literal(`$${path.map((key) => `."${key}"`).join('')}`);
}

function escapeGlob(key: string): string {
  return key.replaceAll(/[*?[]/g, '[$&]');
}

function hasRepeatedKey(path: readonly string[]): string {
  return `(SELECT count(*)${membersAt(path)}) > 1`;
}

/** Reads the value of the last of equal keys. Here a decimal number has at most the digits of a double. */
function keyByKey(path: readonly string[]): string {
  const member = `k${path.length - 1}`;
  const json = [
    `CASE WHEN ${member}.type = 'text' THEN json_quote(${member}.value)`,
    `WHEN ${member}.type IN ('true', 'false', 'null') THEN ${member}.type ELSE CAST(${member}.value AS TEXT) END`,
  ].join(' ');
  const lastFirst = path.map((_, level) => `k${level}.id DESC`).join(', ');
  return `(SELECT ${json}${membersAt(path)} ORDER BY ${lastFirst} LIMIT 1)`;
}

/** The members at a path, with one table (`k0`, `k1`) per level. */
function membersAt([first = '', ...keys]: readonly string[]): string {
  const joins = keys.map((key, level) => {
    const within = `json_each(CASE k${level}.type WHEN 'object' THEN k${level}.value END)`;
    return ` LEFT JOIN ${within} AS k${level + 1} ON k${level + 1}.key = ${literal(key)}`;
  });
  return ` FROM json_each(${cleanJson(BODY)}) AS k0${joins.join('')} WHERE k0.key = ${literal(first)}`;
}

function literal(text: string): string {
  return `'${text.toWellFormed().replaceAll("'", "''").replaceAll('\0', '␀')}'`;
}

/** Replaces a NUL by its symbol (U+2400), as in the tables. Valid JSON has no character 1, which marks backslashes. */
function cleanJson(json: string): string {
  // The build accepts only ASCII in raw templates.
  const marked = String.raw`replace(replace(${json}, '\\', char(1)), '\u0000', ` + `'␀')`;
  return String.raw`CASE WHEN instr(${json}, '\u0000') > 0 THEN replace(${marked}, char(1), '\\') ELSE ${json} END`;
}

/** The value of the JSON text `r` in SQLite: a text, an integer or a double. */
const PARSED = "json_extract(r, '$')";
/**
 * The text `x` with U+FFFD for each half of a surrogate pair, as `unicode` reads it, letter by letter. The list has one
 * element per letter; SQLite has no loop.
 */
const LETTERS = `json_each('[0' || replace(hex(zeroblob(length(x) - 1)), '00', ',0') || ']')`;
const REPAIRED = `(SELECT group_concat(char(unicode(substr(x, key + 1, 1))), '') FROM ${LETTERS})`;
/** Only a text with an escape may have half a pair (the bytes ED A0 to ED BF); a long one stays as it is. */
const IS_REPAIRED = "hex(x) GLOB '*ED[AB]*' AND length(x) < 20000";
const UNESCAPED = `SELECT CASE WHEN ${IS_REPAIRED} THEN ${REPAIRED} ELSE x END FROM (SELECT json_extract(${cleanJson('r')}, '$') AS x LIMIT 1)`;
const TEXT = String.raw`CASE WHEN r NOT GLOB '*\u*' THEN ${PARSED} ELSE (${UNESCAPED}) END`;

/** A number in the fewest digits if a double holds it, else as it was sent. `n` counts its digits, `d` is the double. */
const DIGITS = "length(ltrim(replace(replace(substr(r, 1, instr(lower(r) || 'e', 'e') - 1), '-', ''), '.', ''), '0'))";
const DECIMAL = [
  "WHEN n > 17 OR d > 1e308 OR (d = 0 AND n > 0) THEN r WHEN d = 0 THEN '0'",
  "WHEN d >= 1e21 OR d < 1e-6 THEN replace(replace(printf('%.15g', r), 'e-0', 'e-'), 'e+0', 'e+')",
  "WHEN r GLOB '*[eE]*' THEN rtrim(rtrim(printf('%.20f', r), '0'), '.') ELSE rtrim(rtrim(r, '0'), '.')",
].join(' ');
const NUMBER = `CASE WHEN r GLOB '*[.eE]*' THEN (SELECT CASE ${DECIMAL} END FROM (SELECT ${DIGITS} AS n, abs(r) AS d LIMIT 1)) WHEN r = '-0' THEN '0' ELSE r END`;

const IS_NUMBER = "r GLOB '[-0-9]*'";

/** An integer, also one that is written with a point, such as `5.0`. */
const CAST_INTEGER = `CAST(${PARSED} AS INTEGER)`;
const IS_WHOLE = `r GLOB '*[.eE]*' AND abs(${PARSED}) <= 9007199254740991 AND ${PARSED} = ${CAST_INTEGER}`;
const INTEGER = `CASE typeof(${PARSED}) WHEN 'integer' THEN ${PARSED} WHEN 'real' THEN CASE WHEN ${IS_WHOLE} THEN ${CAST_INTEGER} END END`;

/** By type of column: the expression of the value, from a subquery (`found`) that returns the JSON text as `r`. */
const VALUE: Readonly<Record<ColumnType, (found: string, zone: string | null) => string>> = {
  boolean: (found) => `(SELECT CASE r WHEN 'true' THEN 1 WHEN 'false' THEN 0 END FROM ${found})`,
  integer: (found) => `(SELECT CASE WHEN ${IS_NUMBER} THEN ${INTEGER} END FROM ${found})`,
  double: (found) => `(SELECT CASE WHEN ${IS_NUMBER} AND abs(r) < 9e999 THEN CAST(r AS REAL) END FROM ${found})`,
  numeric: (found) => `(SELECT CASE WHEN ${IS_NUMBER} THEN ${NUMBER} END FROM ${found})`,
  date: (found) =>
    `(SELECT CASE WHEN s ${DAY} AND date(s) = s AND s > '0001' THEN s END FROM (${stringIn(found)} LIMIT 1))`,
  timestamp: (found, zone) => timestampFromText(stringIn(found), zone),
  text: (found) =>
    `(SELECT CASE WHEN r GLOB '"*' THEN ${TEXT} WHEN ${IS_NUMBER} THEN ${NUMBER} WHEN r IN ('true', 'false') THEN r END FROM ${found})`,
  json: (found) => `(SELECT CASE WHEN r <> 'null' THEN ${cleanJson('r')} END FROM ${found})`,
};

/** Selects the content of a JSON string as `s`; NULL for any other value. */
function stringIn(found: string): string {
  return `SELECT CASE WHEN r GLOB '"*' THEN ${PARSED} END AS s FROM ${found}`;
}

/**
 * Converts a time as services write it, such as `2026-11-20T08:30:00+01:00`, to the UTC text of the tables, and any other
 * text to NULL. `selected` is a SELECT of the text as `s`. A time without a zone is in `zone`, or in UTC if that is null.
 */
export function timestampFromText(selected: string, zone: string | null): string {
  return `(SELECT ${UTC_TEXT} FROM (SELECT *, ${zoneExpression(zone)} AS z FROM (SELECT s, ${PARTS} FROM (${selected} LIMIT 1) LIMIT 1) LIMIT 1))`;
}

/**
 * The parts of a text `s`, such as `2026-11-20T08:30:00.5+01:00`. `d`: the day; `c`: the time, with `:00` if the seconds
 * are missing; `t`: all after the seconds (`.5+01:00`); `e`: all after the fraction, which is the zone (`+01:00`).
 */
const PARTS = [
  'substr(s, 1, 10) AS d',
  "CASE substr(s, 17, 1) WHEN ':' THEN substr(s, 12, 8) ELSE substr(s, 12, 5) || ':00' END AS c",
  "CASE substr(s, 17, 1) WHEN ':' THEN substr(s, 20) ELSE substr(s, 17) END AS t",
  "CASE WHEN substr(s, 17, 1) <> ':' THEN substr(s, 17) WHEN substr(s, 20) GLOB '.[0-9]*' THEN ltrim(substr(s, 21), '0123456789') ELSE substr(s, 20) END AS e",
].join(', ');

/** The time before it is converted to UTC. */
const WRITTEN = "d || ' ' || c";

function zoneExpression(zone: string | null): string {
  return `CASE e WHEN '' THEN ${zone === null ? "'Z'" : localOffset(WRITTEN, zone)} ELSE e END`;
}

const DAY = "GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'";
const OFFSETS = ['', '[0-5][0-9]', ':[0-5][0-9]'].map((minutes) => `z GLOB '[-+][0-2][0-9]${minutes}'`).join(' OR ');
const IS_TIME = [
  `d ${DAY} AND date(d) = d AND d > '0001' AND substr(s, 11, 1) IN ('T', 't', ' ')`,
  "c GLOB '[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND c < '24'",
  'length(t) - length(e) <= 10',
  `(z IN ('Z', 'z') OR ((${OFFSETS}) AND substr(z, 2, 2) < '24'))`,
].join(' AND ');

/** The milliseconds, unless they are zero; further digits are cut off. */
const FRACTION_DIGITS = "substr(substr(t, 2, max(length(t) - length(e) - 1, 0)) || '00', 1, 3)";
const MILLISECONDS = `CASE WHEN ${FRACTION_DIGITS} IN ('00', '000') THEN '' ELSE '.' || ${FRACTION_DIGITS} END`;

/** The sign of the conversion to UTC: an offset of +02:00 means that two hours are subtracted. */
const SIGN = "CASE substr(z, 1, 1) WHEN '+' THEN '-' ELSE '+' END";
const MINUTES = "CASE length(z) WHEN 3 THEN '00' ELSE substr(z, -2) END";
const SHIFTED = `datetime(${WRITTEN}, ${SIGN} || substr(z, 2, 2) || ' hours', ${SIGN} || ${MINUTES} || ' minutes')`;
/** A local time outside of the years 1 to 9999 in UTC stays as written: services use the first and last one for "none". */
const IN_UTC = `CASE WHEN z IN ('Z', 'z') THEN ${WRITTEN} WHEN ${SHIFTED} GLOB '[0-9][0-9][0-9][0-9]-*' AND ${SHIFTED} > '0001' THEN ${SHIFTED} WHEN e = '' THEN ${WRITTEN} END`;

const UTC_TEXT = `CASE WHEN s ${DAY} AND date(s) = s AND s > '0001' THEN s || ' 00:00:00' WHEN ${IS_TIME} THEN ${IN_UTC} || ${MILLISECONDS} END`;

const FIRST = Date.UTC(1970, 0, 1);
const LAST = Date.UTC(2038, 0, 1);
const WEEK = 7 * 86_400_000;
const MINUTE = 60_000;

const offsetsByZone = new Map<string, string>();

/**
 * The offset of a local time, such as `+01:00`, as an expression over its text, by all changes of the clocks from 1970
 * to 2037; NULL outside of these years, and for an offset that is no whole minutes. SQLite knows no zones.
 */
function localOffset(local: string, zone: string): string {
  const steps = offsetsByZone.get(zone) ?? offsetSteps(timeZone(zone));
  offsetsByZone.set(zone, steps);
  return `CASE ${steps.replaceAll('@', local)} END`;
}

/** The newest step first, which most times match. */
function offsetSteps(zone: TimeZone): string {
  const steps = [`WHEN @ >= '${toSqlTime(LAST)}' THEN NULL`];
  for (let week = LAST; week > FIRST; week -= WEEK) {
    const offset = offsetAt(zone, week);
    if (offsetAt(zone, week - WEEK) === offset) continue;
    steps.push(`WHEN @ >= '${toSqlTime(changeBetween(zone, week - WEEK, week))}' THEN ${offset}`);
  }
  return [...steps, `WHEN @ >= '${toSqlTime(FIRST)}' THEN ${offsetAt(zone, FIRST)}`].join(' ');
}

/** Finds the local time from which the offset of `after` applies. */
function changeBetween(zone: TimeZone, before: number, after: number): number {
  const offset = offsetAt(zone, after);
  let [low, high] = [before / MINUTE, after / MINUTE];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(zone, middle * MINUTE) === offset) high = middle;
    else low = middle;
  }
  return high * MINUTE;
}

function offsetAt(zone: TimeZone, local: number): string {
  const minutes = (local - zone.earliest(local)) / MINUTE;
  const [size, sign] = [Math.abs(minutes), minutes < 0 ? '-' : '+'];
  return Number.isInteger(size) ? `'${sign}${twoDigits(Math.floor(size / 60))}:${twoDigits(size % 60)}'` : 'NULL';
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

function toSqlTime(local: number): string {
  return new Date(local).toISOString().slice(0, 19).replace('T', ' ');
}
