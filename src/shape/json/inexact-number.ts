import { keepsDigits } from './exact-number.ts';

/** Fewer digits than this a double always gives back. */
const LONG = 16;
const EXPONENT = /[eE][+-]?\d+/y;
const HUGE_EXPONENT = /\d[eE][+-]?\d{3,}(?:[\s,\]}]|$)/;
/** What may stand around a number outside a string; inside one it is a false alarm, which costs time and nothing else. */
const BEFORE_NUMBER = ':,[- \n\r\t';
const AFTER_NUMBER = ',]} \n\r\t';

/**
 * True if the JSON text may hold a number whose digits a double would not give back. Looks at every sixteenth character only: no run
 * of sixteen digits passes between two looks.
 */
export function hasInexactNumber(text: string): boolean {
  for (let at = LONG - 1; at < text.length; at += LONG) {
    if (!isNumeric(text.charCodeAt(at))) continue;
    let start = at;
    let end = at + 1;
    while (isNumeric(text.charCodeAt(start - 1))) start--;
    while (isNumeric(text.charCodeAt(end))) end++;
    if (end - start >= LONG && isInexact(text, start, end)) return true;
    at = end;
  }
  return HUGE_EXPONENT.test(text);
}

/** A digit or a point. */
function isNumeric(code: number): boolean {
  return (code >= 48 && code <= 57) || code === 46;
}

function isInexact(text: string, start: number, digitsEnd: number): boolean {
  if (!BEFORE_NUMBER.includes(text[start - 1] ?? ' ')) return false;
  EXPONENT.lastIndex = digitsEnd;
  const end = digitsEnd + (EXPONENT.exec(text)?.[0].length ?? 0);
  return AFTER_NUMBER.includes(text[end] ?? ' ') && !keepsDigits(text.slice(start, end));
}
