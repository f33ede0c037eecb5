// SQL expressions that read values of columns from stored JSON bodies, for history views on SQLite.
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { BodyDialect } from '../../view-dialect.ts';
import { timeZone, type TimeZone } from '../../../model/time-zone.ts';

const BODY = 'v."body"';

/** Uses only JSON functions that every SQLite since 3.34 has; it caches the last bodies that it has parsed. */
export const BODIES: BodyDialect = {
  from: ' FROM "_sync_versions" AS v',
  value: (path, type, zone) => VALUE[type](`(SELECT ${jsonTextAt(path)} AS r LIMIT 1)`, zone),
  list: (path) =>
    `(SELECT CASE WHEN r GLOB '[[]*' THEN ${cleanJson('r')} END FROM (SELECT ${jsonTextAt(path)} AS r LIMIT 1))`,
};

/** The JSON text at a path; NULL or 'null' if there is none. */
function jsonTextAt(path: readonly string[]): string {
  const isSimple = path.every((key) => key !== '' && !/["\\\p{Cc}]/u.test(key));
  const found = isSimple ? jsonAt(path) : keyByKey(path);
  // In older versions a key is only found as it is written: others write letters beyond ASCII as escapes.
  const once =
    isSimple && !path.every((key) => ASCII.test(key)) ? `coalesce(nullif(${found}, 'null'), ${keyByKey(path)})` : found;
  const repeated = isSimple
    ? `WHEN (${mayHaveRepeatedKey(path)}) AND ${hasRepeatedKey(path)} THEN ${keyByKey(path)} `
    : '';
  return `CASE WHEN NOT json_valid(${BODY}) THEN NULL ${repeated}ELSE ${once} END`;
}

/**
 * `json_extract` with one path turns a number into a double. With two it returns an array of both values as they are
 * written: `[null,value]`, because no array has enough elements for the first path.
 */
function jsonAt(path: readonly string[]): string {
  const array = `json_extract(${BODY}, '$[999999999]', ${jsonPath(path)})`;
  // A negative length counts backwards from the last byte, which is left out. Of a text, every character would be counted.
  return `CAST(substr(substr(CAST(${array} AS BLOB), -1, -1000000000), 7) AS TEXT)`;
}

const ASCII = /^[A-Za-z0-9_-]*$/;

/** True if the text of a body, and that of the object at the path, contain a key twice; a fast check for most bodies. */
function mayHaveRepeatedKey(path: readonly string[]): string {
  const looks = path.map((key, at) => {
    const within = path.slice(0, at);
    const twice = `GLOB ${literal(`*"${escapeGlob(key)}"*"${escapeGlob(key)}"*`)}`;
    const isFound = at > 0 && within.every((each) => ASCII.test(each));
    return `${BODY} ${twice}${isFound ? ` AND ${jsonAt(within)} ${twice}` : ''}`;
  });
  return looks.join(' OR ');
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

/** Of equal keys the last one counts. Decimals have no more than the digits of a double here. */
function keyByKey(path: readonly string[]): string {
  const last = `k${path.length - 1}`;
  const json = `CASE WHEN ${last}.type = 'text' THEN json_quote(${last}.value) WHEN ${last}.type IN ('true', 'false', 'null') THEN ${last}.type ELSE CAST(${last}.value AS TEXT) END`;
  const newestFirst = path.map((_, level) => `k${level}.id DESC`).join(', ');
  return `(SELECT ${json}${membersAt(path)} ORDER BY ${newestFirst} LIMIT 1)`;
}

/** The members at a path, one table per level. */
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

/** A NUL as its symbol. Valid JSON contains no control character. The build takes raw templates in ASCII alone. */
function cleanJson(json: string): string {
  const marked = String.raw`replace(replace(${json}, '\\', char(1)), '\u0000', ` + `'␀')`;
  return String.raw`CASE WHEN instr(${json}, '\u0000') > 0 THEN replace(${marked}, char(1), '\\') ELSE ${json} END`;
}

/**
 * Half a surrogate pair becomes U+FFFD, as which SQLite reads it, letter by letter; only in texts that may hold one and
 * are not too long for that.
 */
const WHOLE_LETTERS = `(SELECT group_concat(char(unicode(substr(x, key + 1, 1))), '') FROM json_each('[0' || replace(hex(zeroblob(length(x) - 1)), '00', ',0') || ']'))`;
const TEXT = String.raw`CASE WHEN r NOT GLOB '*\u*' THEN json_extract(r, '$') ELSE (SELECT CASE WHEN hex(x) GLOB '*ED[AB]*' AND length(x) < 20000 THEN ${WHOLE_LETTERS} ELSE x END FROM (SELECT json_extract(${cleanJson('r')}, '$') AS x LIMIT 1)) END`;

/** A number in the fewest digits if a double holds it, else in the digits that were sent. */
const DIGITS = "length(ltrim(replace(replace(substr(r, 1, instr(lower(r) || 'e', 'e') - 1), '-', ''), '.', ''), '0'))";
const DECIMAL = [
  "WHEN n > 17 OR d > 1e308 OR (d = 0 AND n > 0) THEN r WHEN d = 0 THEN '0'",
  "WHEN d >= 1e21 OR d < 1e-6 THEN replace(replace(printf('%.15g', r), 'e-0', 'e-'), 'e+0', 'e+')",
  "WHEN r GLOB '*[eE]*' THEN rtrim(rtrim(printf('%.20f', r), '0'), '.') ELSE rtrim(rtrim(r, '0'), '.')",
].join(' ');
const NUMBER = `CASE WHEN r GLOB '*[.eE]*' THEN (SELECT CASE ${DECIMAL} END FROM (SELECT ${DIGITS} AS n, abs(r) AS d LIMIT 1)) WHEN r = '-0' THEN '0' ELSE r END`;

const IS_NUMBER = "r GLOB '[-0-9]*'";

/** A whole number, also one that is written with a point. */
const WHOLE = `CASE typeof(json_extract(r, '$')) WHEN 'integer' THEN json_extract(r, '$') WHEN 'real' THEN CASE WHEN r GLOB '*[.eE]*' AND abs(json_extract(r, '$')) <= 9007199254740991 AND json_extract(r, '$') = CAST(json_extract(r, '$') AS INTEGER) THEN CAST(json_extract(r, '$') AS INTEGER) END END`;

const VALUE: Readonly<Record<ColumnType, (found: string, zone: string | null) => string>> = {
  boolean: (found) => `(SELECT CASE r WHEN 'true' THEN 1 WHEN 'false' THEN 0 END FROM ${found})`,
  integer: (found) => `(SELECT CASE WHEN ${IS_NUMBER} THEN ${WHOLE} END FROM ${found})`,
  double: (found) => `(SELECT CASE WHEN ${IS_NUMBER} AND abs(r) < 9e999 THEN CAST(r AS REAL) END FROM ${found})`,
  numeric: (found) => `(SELECT CASE WHEN ${IS_NUMBER} THEN ${NUMBER} END FROM ${found})`,
  date: (found) =>
    `(SELECT CASE WHEN s GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND date(s) = s AND s > '0001' THEN s END FROM (SELECT CASE WHEN r GLOB '"*' THEN json_extract(r, '$') END AS s FROM ${found} LIMIT 1))`,
  timestamp: timestampValue,
  text: (found) =>
    `(SELECT CASE WHEN r GLOB '"*' THEN ${TEXT} WHEN ${IS_NUMBER} THEN ${NUMBER} WHEN r IN ('true', 'false') THEN r END FROM ${found})`,
  json: (found) => `(SELECT CASE WHEN r <> 'null' THEN ${cleanJson('r')} END FROM ${found})`,
};

function timestampValue(found: string, zone: string | null): string {
  return timestampFromText(`SELECT CASE WHEN r GLOB '"*' THEN json_extract(r, '$') END AS s FROM ${found}`, zone);
}

/**
 * A time as services write it, such as `2026-11-20T08:30:00+01:00`, as the UTC text of the tables; NULL for any other text.
 * `selected` is a SELECT of the text as `s`. A time that names no zone is read in `zone`, as UTC without one.
 */
export function timestampFromText(selected: string, zone: string | null): string {
  return `(SELECT ${MOMENT} FROM (SELECT *, ${zoneExpression(zone)} AS z FROM (SELECT s, ${PARTS} FROM (${selected} LIMIT 1) LIMIT 1) LIMIT 1))`;
}

/**
 * The parts of a text `s`. `d`: the day; `c`: the time with seconds, which may be left out; `t`: all that follows the
 * seconds; `e`: all that follows the fraction, which is the zone.
 */
const PARTS = [
  'substr(s, 1, 10) AS d',
  "CASE substr(s, 17, 1) WHEN ':' THEN substr(s, 12, 8) ELSE substr(s, 12, 5) || ':00' END AS c",
  "CASE substr(s, 17, 1) WHEN ':' THEN substr(s, 20) ELSE substr(s, 17) END AS t",
  "CASE WHEN substr(s, 17, 1) <> ':' THEN substr(s, 17) WHEN substr(s, 20) GLOB '.[0-9]*' THEN ltrim(substr(s, 21), '0123456789') ELSE substr(s, 20) END AS e",
].join(', ');

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

/** Milliseconds, if there are any; further digits are cut off. */
const FRACTION_DIGITS = "substr(substr(t, 2, max(length(t) - length(e) - 1, 0)) || '00', 1, 3)";
const MILLISECONDS = `CASE WHEN ${FRACTION_DIGITS} IN ('00', '000') THEN '' ELSE '.' || ${FRACTION_DIGITS} END`;

const SIGN = "CASE substr(z, 1, 1) WHEN '+' THEN '-' ELSE '+' END";
const MINUTES = "CASE length(z) WHEN 3 THEN '00' ELSE substr(z, -2) END";
const MOVED = `datetime(${WRITTEN}, ${SIGN} || substr(z, 2, 2) || ' hours', ${SIGN} || ${MINUTES} || ' minutes')`;
/** Services use the earliest and the latest timestamp that can be written for "none". */
const IN_UTC = `CASE WHEN z IN ('Z', 'z') THEN ${WRITTEN} WHEN ${MOVED} GLOB '[0-9][0-9][0-9][0-9]-*' AND ${MOVED} > '0001' THEN ${MOVED} WHEN e = '' THEN ${WRITTEN} END`;

const MOMENT = `CASE WHEN s ${DAY} AND date(s) = s AND s > '0001' THEN s || ' 00:00:00' WHEN ${IS_TIME} THEN ${IN_UTC} || ${MILLISECONDS} END`;

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
