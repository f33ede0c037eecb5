import { httpDate } from '../../../model/http-date.ts';
import type { RateEntry } from '../../../config/profile/rate-dialect.ts';

type Unit = RateEntry['unit'];

const DAY_MS = 86_400_000;

/**
 * However long a stated wait is, it counts; beyond ten years it counts as ten years, so that the moment at which it
 * ends can be stored and shown.
 */
export const LONGEST_WAIT_MS = 3_650 * DAY_MS;

/** A moment that ended more than an hour ago is a mistake rather than a statement. */
const OLDEST_MS = -3_600_000;

/**
 * A number is a Unix time from a year ago on; a lower one would be a moment long past, and is a number of seconds. The
 * same for one from before 2001, whatever the clock of a machine shows that has just been started.
 */
const UNIX_TIME_FROM_MS = -366 * DAY_MS;
const EARLIEST_UNIX_TIME_MS = 1e12;

const NUMBER = /^\d+(\.\d+)?$/;
const ISO_DATE = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;
const GO_DURATION = /^(\d+(\.\d+)?(ms|s|m|h))+$/;
const GO_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Milliseconds from now that a text stands for, or NaN where it does not stand for any. */
type Reader = (text: string, serverNow: number) => number;

const READERS: Readonly<Record<Unit, Reader>> = {
  // A Unix time where seconds were expected is still that moment: nobody means fifty years.
  s: (text, now) => secondsOrMoment(numberIn(text), now),
  ms: (text) => numberIn(text),
  epoch_s: (text, now) => numberIn(text) * 1_000 - now,
  epoch_ms: (text, now) => numberIn(text) - now,
  iso: (text, now) => (ISO_DATE.test(text) ? Date.parse(text) : Number.NaN) - now,
  duration: (text) => (NUMBER.test(text) ? Number(text) * 1_000 : goDuration(text)),
  http_date: (text, now) => (httpDate(text, now) ?? Number.NaN) - now,
  auto: (text, now) => READERS[unitOf(text)](text, now),
};

/**
 * How long a stated time is off, in milliseconds, `LONGEST_WAIT_MS` at most; past moments are 0. Null if the text is
 * not of the unit, or names a moment long past. Absolute times are read against `serverNow`, the epoch milliseconds of
 * the answer's `Date`.
 */
export function waitIn(text: string, unit: Unit, serverNow: number): number | null {
  const wait = READERS[unit](text.trim(), serverNow);
  return wait >= OLDEST_MS ? Math.min(Math.max(0, wait), LONGEST_WAIT_MS) : null;
}

/** A comma that does not belong to a date, as stands between the values of a header that came twice. */
const BETWEEN_VALUES = /(?<!(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|day)),/;

/** The one wait that a header states, or the longest if it came twice; null if any of them cannot be read. */
export function longestWait(text: string, unit: Unit, serverNow: number): number | null {
  const waits = text.split(BETWEEN_VALUES).map((part) => waitIn(part, unit, serverNow));
  return waits.reduce((longest, wait) => (longest === null || wait === null ? null : Math.max(longest, wait)), 0);
}

/** Digits first: `new Date('120')` and `new Date('-5')` are dates to JavaScript. */
function unitOf(text: string): Unit {
  if (NUMBER.test(text)) return 's';
  if (GO_DURATION.test(text)) return 'duration';
  return ISO_DATE.test(text) ? 'iso' : 'http_date';
}

/** Seconds from now, Unix seconds and Unix milliseconds of our time lie far apart. */
function secondsOrMoment(number: number, now: number): number {
  const from = Math.max(now + UNIX_TIME_FROM_MS, EARLIEST_UNIX_TIME_MS);
  if (number >= from) return number - now;
  return number * 1_000 >= from ? number * 1_000 - now : number * 1_000;
}

function numberIn(text: string): number {
  return NUMBER.test(text) ? Number(text) : Number.NaN;
}

/** A count as a header writes it; null for what is no number, or one that no number can hold. */
export function countIn(text: string): number | null {
  return Number.isFinite(numberIn(text)) ? Number(text) : null;
}

/** Seconds as a field states them, in milliseconds; null if it states none. */
export function milliseconds(seconds: number | undefined): number | null {
  return seconds === undefined ? null : Math.min(seconds * 1_000, LONGEST_WAIT_MS);
}

function goDuration(text: string): number {
  if (!GO_DURATION.test(text)) return Number.NaN;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (GO_UNITS[unit ?? ''] ?? Number.NaN), 0);
}
