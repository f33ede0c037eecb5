import { COMMA, isDigitOrPoint, LONG_DIGITS, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringEnd } from './scan-json.ts';

/** Values of a text on all levels, and the characters of its numbers of sixteen digits and more. */
export interface JsonSize {
  values: number;
  digits: number;
}

/**
 * Measures a JSON text by its bytes before it is parsed: a parsed value takes up to a hundred bytes for two of the
 * text's. Nothing is validated and nothing recurses.
 */
export function jsonSize(bytes: Uint8Array): JsonSize {
  let [values, digits] = [1, 0];
  let at = 0;
  while (at < bytes.length) {
    const code = bytes[at] ?? 0;
    if (code === QUOTE) {
      at = stringEnd(bytes, at);
      continue;
    }
    // Each value follows a comma, or is the first in an array or object.
    if (code === COMMA || code === OPEN_BRACKET || code === OPEN_BRACE) values += 1;
    else if (isDigitOrPoint(code)) {
      const start = at;
      while (isDigitOrPoint(bytes[at + 1] ?? 0)) at += 1;
      if (at + 1 - start >= LONG_DIGITS) digits += at + 1 - start;
    }
    at += 1;
  }
  return { values, digits };
}
