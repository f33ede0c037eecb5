import type { JsonValue } from '../../model/json.ts';
import { isExact } from './exact-number.ts';

/** Digits before and after the point that Postgres's jsonb (its numeric) holds. */
const MOST_WHOLE = 131_072;
const MOST_FRACTION = 16_383;
/** A number with fewer digits in a row and a smaller exponent is never affected. */
const LONG = 10_000;
const EXPONENT = /[eE][+-]?\d{5}/;

/**
 * `JSON.stringify`, but a number beyond what jsonb holds becomes the text of its digits: Postgres would refuse the
 * whole page for it, and SQLite's JSON functions would read it as infinity or zero.
 */
export function jsonText(value: JsonValue): string {
  const text = JSON.stringify(value);
  return mayHoldHuge(text) ? JSON.stringify(value, hugeAsText) : text;
}

/** May give a false alarm, which only costs time. */
function mayHoldHuge(text: string): boolean {
  for (let at = LONG - 1; at < text.length; at += LONG) {
    const code = text.charCodeAt(at);
    if (code >= 48 && code <= 57) return true;
  }
  return EXPONENT.test(text);
}

function hugeAsText(_key: string, value: JsonValue): JsonValue {
  return isExact(value) && !fitsJsonb(value.rawJSON) ? value.rawJSON : value;
}

function fitsJsonb(source: string): boolean {
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  return whole.length + Number(exponent) <= MOST_WHOLE && fraction.length - Number(exponent) <= MOST_FRACTION;
}
