const DATE_LENGTH = 10;
/** `YYYY-MM-DDTHH:MM:SSZ`, and the same with `.SSS` before the `Z`. */
const TO_SECOND = 20;
const TO_MILLISECOND = 24;
const [SPACE, DASH, POINT, COLON, T, Z] = [32, 45, 46, 58, 84, 90];
const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;
/** In place of a number that is none: what is made with it stays below 0. */
const NO_NUMBER = -100_000;

/**
 * Epoch milliseconds of the moment as most services write it, `YYYY-MM-DDTHH:MM:SSZ` or with `.SSS`; NaN for any other
 * text, which may be a moment all the same. Runs for each record, so it makes no objects.
 */
export function plainMoment(text: string): number {
  const day = isPlain(text) ? dayNumber(text) : Number.NaN;
  if (Number.isNaN(day)) return day;
  const seconds = (twoDigits(text, 11) * 60 + twoDigits(text, 14)) * 60 + twoDigits(text, 17);
  return day * 86_400_000 + seconds * 1_000 + millisecondOf(text);
}

/** The cell of such a moment, as one flat text; null for any other text. */
export function plainTimestamp(text: string): string | null {
  if (!isPlain(text) || !isDay(text)) return null;
  const at = (index: number): number => text.charCodeAt(index);
  // A text put together from slices is copied once more when it is written.
  if (millisecondOf(text) === 0) {
    // oxfmt-ignore
    return String.fromCharCode(
      at(0), at(1), at(2), at(3), DASH, at(5), at(6), DASH, at(8), at(9), SPACE,
      at(11), at(12), COLON, at(14), at(15), COLON, at(17), at(18),
    );
  }
  // oxfmt-ignore
  return String.fromCharCode(
    at(0), at(1), at(2), at(3), DASH, at(5), at(6), DASH, at(8), at(9), SPACE,
    at(11), at(12), COLON, at(14), at(15), COLON, at(17), at(18), POINT, at(20), at(21), at(22),
  );
}

/** True if the first ten characters are a date of the calendar between the years 1 and 9999. */
export function isDay(text: string): boolean {
  if (text.charCodeAt(4) !== DASH || text.charCodeAt(7) !== DASH) return false;
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2);
  const month = twoDigits(text, 5);
  const day = twoDigits(text, 8);
  return year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
}

function daysIn(year: number, month: number): number {
  const leap = month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return leap ? 29 : (MONTH_DAYS[month - 1] ?? 0);
}

/** True if all but the date is as it should be. */
function isPlain(text: string): boolean {
  const { length } = text;
  if (length !== TO_SECOND && length !== TO_MILLISECOND) return false;
  if (text.charCodeAt(DATE_LENGTH) !== T || text.charCodeAt(length - 1) !== Z) return false;
  if (text.charCodeAt(13) !== COLON || text.charCodeAt(16) !== COLON) return false;
  const hour = twoDigits(text, 11);
  const minute = twoDigits(text, 14);
  const second = twoDigits(text, 17);
  const isClock = hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59 && second >= 0 && second <= 59;
  return isClock && (length === TO_SECOND || (text.charCodeAt(19) === POINT && millisecondOf(text) >= 0));
}

function millisecondOf(text: string): number {
  if (text.length === TO_SECOND) return 0;
  const hundreds = text.charCodeAt(20) - 48;
  return hundreds >= 0 && hundreds <= 9 ? hundreds * 100 + twoDigits(text, 21) : NO_NUMBER;
}

/** Days since 1970 of the date that the text begins with, NaN if there is none; months count from March. */
function dayNumber(text: string): number {
  if (!isDay(text)) return Number.NaN;
  const month = twoDigits(text, 5);
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2) - (month <= 2 ? 1 : 0);
  const leapDays = Math.floor(year / 4) - Math.floor(year / 100) + Math.floor(year / 400);
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + twoDigits(text, 8) - 1;
  return year * 365 + leapDays + dayOfYear - 719_468;
}

/** Below 0 unless two digits stand at `at`. */
function twoDigits(text: string, at: number): number {
  const tens = text.charCodeAt(at) - 48;
  const ones = text.charCodeAt(at + 1) - 48;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : NO_NUMBER;
}
