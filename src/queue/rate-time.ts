import type { RateEntry } from '../source/rate-dialect.ts';

type Unit = RateEntry['unit'];

/** A wait beyond a day, or a moment that ended more than an hour ago, is a mistake rather than a statement. */
const LONGEST_WAIT_MS = 86_400_000;
const OLDEST_MS = -3_600_000;

/** The largest number that `auto` takes for seconds from now rather than for a moment. */
const LARGEST_DELTA_S = LONGEST_WAIT_MS / 1_000;

const NUMBER = /^\d+(\.\d+)?$/;
const ISO_DATE = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;
const GO_DURATION = /^(\d+(\.\d+)?(ms|s|m|h))+$/;
const GO_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** IMF-fixdate, RFC 850 and asctime, RFC 9110 section 5.6.7. The last carries no zone and is GMT all the same. */
const HTTP_DATES = [
  /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/,
  /^(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT$/,
  /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/,
];

/** Milliseconds from now that a text stands for, or NaN where it does not stand for any. */
type Reader = (text: string, serverNow: number) => number;

const READERS: Readonly<Record<Unit, Reader>> = {
  s: (text) => numberIn(text) * 1_000,
  ms: (text) => numberIn(text),
  epoch_s: (text, now) => numberIn(text) * 1_000 - now,
  epoch_ms: (text, now) => numberIn(text) - now,
  iso: (text, now) => (ISO_DATE.test(text) ? Date.parse(text) : Number.NaN) - now,
  duration: (text) => (NUMBER.test(text) ? Number(text) * 1_000 : goDuration(text)),
  http_date: (text, now) => httpDate(text) - now,
  auto: (text, now) => READERS[unitOf(text)](text, now),
};

/**
 * How long a stated time is off, in milliseconds; past moments are 0. Null where the text is not of the unit, or says
 * something implausible. Absolute times are read against `serverNow`, the epoch milliseconds of the answer's `Date`.
 */
export function waitIn(text: string, unit: Unit, serverNow: number): number | null {
  const wait = READERS[unit](text.trim(), serverNow);
  return wait >= OLDEST_MS && wait <= LONGEST_WAIT_MS ? Math.max(0, wait) : null;
}

/** Epoch milliseconds of an HTTP-date in any of its three forms; NaN for anything else. */
export function httpDate(text: string): number {
  const form = HTTP_DATES.findIndex((pattern) => pattern.test(text));
  if (form === -1) return Number.NaN;
  return Date.parse(form === 2 ? `${text} GMT` : text);
}

/** Digits first: `new Date('120')` and `new Date('-5')` are dates to JavaScript. */
function unitOf(text: string): Unit {
  if (NUMBER.test(text)) return unitOfNumber(Number(text));
  if (GO_DURATION.test(text)) return 'duration';
  return ISO_DATE.test(text) ? 'iso' : 'http_date';
}

/** Delta seconds, Unix seconds and Unix milliseconds of our century lie far apart. */
function unitOfNumber(number: number): Unit {
  if (number <= LARGEST_DELTA_S) return 's';
  return number < 1e11 ? 'epoch_s' : 'epoch_ms';
}

function numberIn(text: string): number {
  return NUMBER.test(text) ? Number(text) : Number.NaN;
}

function goDuration(text: string): number {
  if (!GO_DURATION.test(text)) return Number.NaN;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (GO_UNITS[unit ?? ''] ?? Number.NaN), 0);
}
