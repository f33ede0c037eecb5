import { timeZone, type TimeZone } from '../../../model/time-zone.ts';

const FIRST = Date.UTC(1970, 0, 1);
const LAST = Date.UTC(2038, 0, 1);
const WEEK = 7 * 86_400_000;
const MINUTE = 60_000;

const known = new Map<string, string>();

/**
 * The offset of a local time, such as `+01:00`, as an expression over its text, by all changes of the clocks from 1970
 * to 2037; NULL outside of these years, and for an offset that is no whole minutes. SQLite knows no zones.
 */
export function offsetOf(local: string, zone: string): string {
  const steps = known.get(zone) ?? stepsOf(timeZone(zone));
  known.set(zone, steps);
  return `CASE ${steps.replaceAll('@', local)} END`;
}

/** From the last one on: what most times are. */
function stepsOf(zone: TimeZone): string {
  const steps = [`WHEN @ >= '${textOf(LAST)}' THEN NULL`];
  for (let week = LAST; week > FIRST; week -= WEEK) {
    const offset = offsetAt(zone, week);
    if (offsetAt(zone, week - WEEK) === offset) continue;
    steps.push(`WHEN @ >= '${textOf(changeBetween(zone, week - WEEK, week))}' THEN ${offset}`);
  }
  return [...steps, `WHEN @ >= '${textOf(FIRST)}' THEN ${offsetAt(zone, FIRST)}`].join(' ');
}

/** The local time from which on it is the offset of `after`. */
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
  const two = (figure: number): string => String(figure).padStart(2, '0');
  return Number.isInteger(size) ? `'${sign}${two(Math.floor(size / 60))}:${two(size % 60)}'` : 'NULL';
}

function textOf(local: number): string {
  return new Date(local).toISOString().slice(0, 19).replace('T', ' ');
}
