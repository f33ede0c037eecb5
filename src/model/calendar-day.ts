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
