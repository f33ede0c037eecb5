import type { ExactNumber } from '../../model/json.ts';
import { isDigitOrPoint } from './scan-json.ts';

/** True for a number kept by its digits; false for an object of the source that only looks like one. */
export function isExact(value: unknown): value is ExactNumber {
  return JSON.isRawJSON(value);
}

/** Digits that `toPrecision` can write. */
const MAX_PRECISION = 100;
const INTEGER = /^-?\d+$/;

/** True for the digits of an integer without fraction or exponent. */
export function isIntegerSource(source: string): boolean {
  return INTEGER.test(source);
}

/**
 * True if the double nearest to the number that `source` (valid JSON) writes is written with the same digits, as
 * JavaScript writes it: integers up to 2^53 - 1, and decimals in the fewest digits that identify the double.
 * Trailing zeros, the sign of zero and the way of writing (`1E2`) do not count.
 */
export function keepsDigits(source: string): boolean {
  const double = Number(source);
  if (!Number.isFinite(double)) return false;
  if (isIntegerSource(source)) return Number.isSafeInteger(double);
  const shortest = String(double);
  return shortest === source || significand(shortest) === significand(source);
}

/**
 * True if a double holds the number: those that keep their digits, and decimals that the double gives back when it is
 * written with as many digits as `source` has, such as 98331783783160.625 (in the fewest digits 98331783783160.62).
 */
export function fitsDouble(source: string): boolean {
  if (keepsDigits(source)) return true;
  const double = Number(source);
  if (!Number.isFinite(double) || isIntegerSource(source)) return false;
  const written = significand(source);
  return written === significand(double.toPrecision(Math.min(written.indexOf('e'), MAX_PRECISION)));
}

/** The digits without leading and trailing zeros, and their power of ten: equal for equal values. */
function significand(source: string): string {
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = whole + fraction;
  let start = 0;
  let end = digits.length;
  while (digits[start] === '0') start++;
  while (end > start && digits[end - 1] === '0') end--;
  if (start === end) return '0e0';
  return `${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}

const MIN_LONG_DIGITS = 16;
/** A number outside a string with sixteen digits in a row or an exponent of three; in a string it is a false alarm. */
const LONG_NUMBER = /(?<=^|[:,[\s-])(?:[\d.]{16,}(?:[eE][+-]?\d+)?|[\d.]+[eE][+-]?\d{3,})(?=$|[,\]}\s])/g;
const HUGE_EXPONENT = /\d[eE][+-]?\d{3}/;

/** True if the JSON text may hold a number whose digits a double would not give back. */
export function hasInexactNumber(text: string): boolean {
  if (!hasLongDigits(text) && !HUGE_EXPONENT.test(text)) return false;
  for (const [source] of text.matchAll(LONG_NUMBER)) if (!keepsDigits(source)) return true;
  return false;
}

/** Looks at every sixteenth character, which is in every run of sixteen: the expression alone takes as long as parsing. */
function hasLongDigits(text: string): boolean {
  for (let at = MIN_LONG_DIGITS - 1; at < text.length; at += MIN_LONG_DIGITS) {
    let [start, end] = [at, at];
    while (isDigitOrPoint(text.charCodeAt(start))) start -= 1;
    if (start === at) continue;
    while (isDigitOrPoint(text.charCodeAt(end))) end += 1;
    if (end - start > MIN_LONG_DIGITS) return true;
  }
  return false;
}
