import { offsetOf } from './zone-offsets.ts';

/**
 * A time as services write it, as the UTC text of the tables; of `found`, one row with JSON text as `r`. A time that
 * names no zone is read in `zone`, as UTC without one.
 */
export function momentOf(found: string, zone: string | null): string {
  const text = `(SELECT CASE WHEN r GLOB '"*' THEN json_extract(r, '$') END AS s FROM ${found} LIMIT 1)`;
  return `(SELECT ${MOMENT} FROM (SELECT *, ${zoned(zone)} AS z FROM (SELECT s, ${PARTS} FROM ${text} LIMIT 1) LIMIT 1))`;
}

/** The day, the time, all after the seconds, and what of it follows the fraction. */
const PARTS = [
  'substr(s, 1, 10) AS d',
  "CASE substr(s, 17, 1) WHEN ':' THEN substr(s, 12, 8) ELSE substr(s, 12, 5) || ':00' END AS c",
  "CASE substr(s, 17, 1) WHEN ':' THEN substr(s, 20) ELSE substr(s, 17) END AS t",
  "CASE WHEN substr(s, 17, 1) <> ':' THEN substr(s, 17) WHEN substr(s, 20) GLOB '.[0-9]*' THEN ltrim(substr(s, 21), '0123456789') ELSE substr(s, 20) END AS e",
].join(', ');

const WRITTEN = "d || ' ' || c";

function zoned(zone: string | null): string {
  return `CASE e WHEN '' THEN ${zone === null ? "'Z'" : offsetOf(WRITTEN, zone)} ELSE e END`;
}

const DAY = "GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'";
const OFFSETS = ['', '[0-5][0-9]', ':[0-5][0-9]'].map((minutes) => `z GLOB '[-+][0-2][0-9]${minutes}'`).join(' OR ');
const IS_TIME = [
  `d ${DAY} AND date(d) = d AND d > '0001' AND substr(s, 11, 1) IN ('T', 't', ' ')`,
  "c GLOB '[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND c < '24'",
  'length(t) - length(e) <= 10',
  `(z IN ('Z', 'z') OR ((${OFFSETS}) AND substr(z, 2, 2) < '24'))`,
].join(' AND ');

/** Thousandths where there are any; the rest is cut off. */
const DIGITS = "substr(substr(t, 2, max(length(t) - length(e) - 1, 0)) || '00', 1, 3)";
const THOUSANDTHS = `CASE WHEN ${DIGITS} IN ('00', '000') THEN '' ELSE '.' || ${DIGITS} END`;

const SIGN = "CASE substr(z, 1, 1) WHEN '+' THEN '-' ELSE '+' END";
const MINUTES = "CASE length(z) WHEN 3 THEN '00' ELSE substr(z, -2) END";
const MOVED = `datetime(${WRITTEN}, ${SIGN} || substr(z, 2, 2) || ' hours', ${SIGN} || ${MINUTES} || ' minutes')`;
/** Services use the first and the last moment that can be written for "none". */
const IN_UTC = `CASE WHEN z IN ('Z', 'z') THEN ${WRITTEN} WHEN ${MOVED} GLOB '[0-9][0-9][0-9][0-9]-*' AND ${MOVED} > '0001' THEN ${MOVED} WHEN e = '' THEN ${WRITTEN} END`;

const MOMENT = `CASE WHEN s ${DAY} AND date(s) = s AND s > '0001' THEN s || ' 00:00:00' WHEN ${IS_TIME} THEN ${IN_UTC} || ${THOUSANDTHS} END`;
