// Times as text: the stored UTC format, calendar days, and HTTP dates.

/** Formats epoch milliseconds as UTC text, `YYYY-MM-DD HH:MM:SS.SSS`, which sorts by time. */
export function timestampText(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 23).replace('T', ' ');
}

/** Parses such a text into epoch milliseconds; NaN for any other text. */
export function timestampMs(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`);
}

/** The first and the last year, inclusive. */
export type Years = readonly [first: number, last: number];

/** A day with the periods by which reports group. */
export interface CalendarDay {
  /** `YYYY-MM-DD` */
  date: string;
  /** `YYYY-MM` */
  month: string;
  /** `YYYY-Qn` */
  quarter: string;
  year: number;
  /** `YYYY-Www` by ISO 8601, whose year may differ from the day's. */
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
  const date = new Date(at).toISOString().slice(0, 10);
  const day = new Date(at);
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

/** A clock that differs more is ignored, because one wrong response would affect all later times. */
const MAX_CLOCK_OFFSET_MS = DAY_MS;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** IMF-fixdate, RFC 850 and asctime (RFC 9110, 5.6.7). The last one has no zone and is GMT as well. */
const FORMS = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>\w{3}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\d\d)-(?<month>\w{3})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>\w{3}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/,
];

/**
 * Parses an HTTP-date in any of its three forms into epoch milliseconds; null for any other text and for days and times
 * that do not exist. A two-digit year is the one within 50 years of `now` (epoch milliseconds).
 */
export function httpDate(text: string, now: number): number | null {
  const {
    day = '',
    month = '',
    year = '',
    time = '',
  } = FORMS.values()
    .map((form) => form.exec(text)?.groups)
    .find(Boolean) ?? {};
  const [hours = NaN, minutes = NaN, seconds = NaN] = time.split(':').map(Number);
  const at = new Date(0);
  at.setUTCFullYear(year.length === 2 ? nearYear(Number(year), now) : Number(year), MONTHS.indexOf(month), Number(day));
  if (at.getUTCDate() !== Number(day) || at.getUTCMonth() !== MONTHS.indexOf(month)) return null;
  // A leap second is written as 60.
  if (!(hours < 24 && minutes < 60 && seconds <= 60)) return null;
  return at.setUTCHours(hours, minutes, seconds);
}

/**
 * Reads the server's time from the `Date` header; null if that is absent, repeated, malformed, or differs by more than a
 * day from the local clock. `receivedAt` is local, in epoch milliseconds.
 */
export function clockOf(header: string | string[] | undefined, receivedAt: number): number | null {
  const date = typeof header === 'string' ? httpDate(header.trim(), receivedAt) : null;
  return date !== null && Math.abs(date - receivedAt) <= MAX_CLOCK_OFFSET_MS ? date : null;
}

function nearYear(twoDigits: number, now: number): number {
  const first = new Date(now).getUTCFullYear() - 49;
  return first + ((((twoDigits - first) % 100) + 100) % 100);
}
