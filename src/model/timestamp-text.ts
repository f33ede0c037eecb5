// Converts times to and from text, in the three forms that content-sync uses: timestamps as the warehouse stores them
// (`2026-11-20 09:30:00.000`), the days of the calendar table, by which reports group, and dates in HTTP headers.

/** Formats epoch milliseconds as UTC text, `YYYY-MM-DD HH:MM:SS.SSS`, which sorts by time. */
export function timestampText(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 23).replace('T', ' ');
}

/** Parses a text that `timestampText` wrote; NaN for any other text. */
export function timestampMs(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`);
}

/** The first and the last year, inclusive. */
export type Years = readonly [first: number, last: number];

export interface CalendarDay {
  /** `YYYY-MM-DD` */
  date: string;
  /** `YYYY-MM` */
  month: string;
  /** `YYYY-Qn` */
  quarter: string;
  year: number;
  /** `YYYY-Www` by ISO 8601: 1 January may belong to the last week of the year before. */
  iso_week: string;
  /** 1 is Monday. */
  weekday: number;
  is_weekend: boolean;
}

const DAY_MS = 86_400_000;
const THURSDAY = 4;
const SATURDAY = 6;

/** Returns all days of the years from `first` to `last`, inclusive; years have four digits. */
export function daysOfYears(first: number, last: number): CalendarDay[] {
  const [from, to] = [Date.UTC(first, 0, 1), Date.UTC(last + 1, 0, 1)];
  return Array.from({ length: (to - from) / DAY_MS }, (_, day) => calendarDay(from + day * DAY_MS));
}

/** `at` is the start of the day in UTC, in epoch milliseconds. */
function calendarDay(at: number): CalendarDay {
  const day = new Date(at);
  const date = day.toISOString().slice(0, 10);
  const weekday = day.getUTCDay() || 7;
  // A week belongs to the year of its Thursday.
  const thursday = new Date(at + (THURSDAY - weekday) * DAY_MS);
  const year = thursday.getUTCFullYear();
  const week = 1 + Math.floor((thursday.getTime() - Date.UTC(year, 0, 1)) / (7 * DAY_MS));
  return {
    date,
    month: date.slice(0, 7),
    quarter: `${date.slice(0, 4)}-Q${1 + Math.floor(day.getUTCMonth() / 3)}`,
    year: day.getUTCFullYear(),
    iso_week: `${year}-W${String(week).padStart(2, '0')}`,
    weekday,
    is_weekend: weekday >= SATURDAY,
  };
}

/** A server clock that differs more is ignored, because one wrong response would affect all later times. */
const MAX_CLOCK_OFFSET_MS = DAY_MS;

/** The forms of RFC 9110, 5.6.7: IMF-fixdate, RFC 850 and asctime. The last one has no zone and means GMT. */
const HTTP_DATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:[a-z]*, (\d\d)[ -]\w{3}[ -](?:\d\d)?\d\d \d\d:\d\d:[0-5]\d GMT| \w{3} ([ \d]\d) \d\d:\d\d:[0-5]\d \d{4})$/;

/** Parses an HTTP date into epoch milliseconds; null for any other text and for days and times that do not exist. */
export function parseHttpDate(text: string): number | null {
  const [, dayBeforeMonth, day = dayBeforeMonth] = HTTP_DATE.exec(text) ?? [];
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  // `Date.parse` converts 31 February to a day in March.
  return day !== undefined && new Date(at).getUTCDate() === Number(day) ? at : null;
}

/**
 * Reads the server's time from the `Date` header; null if that is absent, repeated, malformed, or differs by more than a
 * day from the local clock. `receivedAt` is local, in epoch milliseconds.
 */
export function readServerTime(header: string | string[] | undefined, receivedAt: number): number | null {
  const date = typeof header === 'string' ? parseHttpDate(header.trim()) : null;
  return date !== null && Math.abs(date - receivedAt) <= MAX_CLOCK_OFFSET_MS ? date : null;
}
