const EPOCH_DAYS = 10_957;
const DAY_MS = 86_400_000;
const DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const [ZERO, NINE] = [48, 57];
const [DASH, SPACE, COLON, POINT] = [45, 32, 58, 46];

/*
 * These run for each cell that holds a time, so they make no arrays to take apart.
 */

/** Days of `YYYY-MM-DD` since 2000-01-01, as Postgres counts them; null for any other text, and for no day. */
export function daysOf(text: string): number | null {
  return text.length === 10 ? dayAt(text) : null;
}

/** Milliseconds of `YYYY-MM-DD HH:MM:SS` or `...SS.SSS`, in UTC, since 2000-01-01; null for any other text. */
export function millisecondsOf(text: string): number | null {
  const hasFraction = text.length === 23;
  if (!hasFraction && text.length !== 19) return null;
  const day = dayAt(text);
  if (day === null || text.charCodeAt(10) !== SPACE) return null;
  if (text.charCodeAt(13) !== COLON || text.charCodeAt(16) !== COLON) return null;
  if (hasFraction && text.charCodeAt(19) !== POINT) return null;
  const hour = digits(text, 11, 2);
  const minute = digits(text, 14, 2);
  const second = digits(text, 17, 2);
  const rest = hasFraction ? digits(text, 20, 3) : 0;
  const isClock = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
  if (!isClock || rest < 0) return null;
  return day * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + rest;
}

function dayAt(text: string): number | null {
  if (text.charCodeAt(4) !== DASH || text.charCodeAt(7) !== DASH) return null;
  const year = digits(text, 0, 4);
  const month = digits(text, 5, 2);
  const day = digits(text, 8, 2);
  if (!(year >= 1 && month >= 1 && month <= 12 && day >= 1)) return null;
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const leapDay = isLeap && month > 2 ? 1 : 0;
  const last = isLeap && month === 2 ? 29 : (MONTH_DAYS[month - 1] ?? 0);
  if (day > last) return null;
  const before = year - 1;
  const leapDays = Math.floor(before / 4) - Math.floor(before / 100) + Math.floor(before / 400);
  // 719,162 days lie between 0001-01-01 and 1970-01-01.
  return before * 365 + leapDays + (DAYS_BEFORE[month - 1] ?? 0) + leapDay + day - 1 - 719_162 - EPOCH_DAYS;
}

/** Below 0 if one of them is no digit: NaN would make every number here a double, each an object of its own. */
function digits(text: string, from: number, count: number): number {
  let value = 0;
  for (let at = from; at < from + count; at += 1) {
    const code = text.charCodeAt(at);
    if (code < ZERO || code > NINE) return -1;
    value = value * 10 + code - ZERO;
  }
  return value;
}
