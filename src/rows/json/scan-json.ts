/*
 * Finds the ends of values in the bytes of a text that `JSON.parse` has already accepted: all that structures JSON is
 * ASCII, so nothing is decoded for it. Nothing is validated and nothing recurses, so any depth is fine.
 */

const SPACE = 32;
export const QUOTE = 34;
export const COMMA = 44;
export const OPEN_BRACKET = 91;
export const BACKSLASH = 92;
export const CLOSE_BRACKET = 93;
export const OPEN_BRACE = 123;
export const CLOSE_BRACE = 125;

/** A double keeps any number with fewer digits than this. */
export const LONG_DIGITS = 16;

/** True for the code of a digit or a point. */
export function isDigitOrPoint(code: number): boolean {
  return (code >= 48 && code <= 57) || code === 46;
}

/** The first position at or after `at` that is not white space. */
export function skipSpace(bytes: Uint8Array, at: number): number {
  let position = at;
  while ((bytes[position] ?? COMMA) <= SPACE) position++;
  return position;
}

/** The position after the closing quote of the string that opens at `open`. */
export function stringEnd(bytes: Uint8Array, open: number): number {
  let at = open + 1;
  for (; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
  return at + 1;
}

/** The position after the value that begins at `start`. */
export function valueEnd(bytes: Uint8Array, start: number): number {
  const first = bytes[start];
  if (first === QUOTE) return stringEnd(bytes, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return containerEnd(bytes, start);
  return literalEnd(bytes, start);
}

function containerEnd(bytes: Uint8Array, start: number): number {
  let depth = 0;
  let at = start;
  while (at < bytes.length) {
    const code = bytes[at];
    if (code === QUOTE) {
      at = stringEnd(bytes, at);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) return at + 1;
    at++;
  }
  return at;
}

function literalEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (; at < bytes.length; at++) {
    const code = bytes[at] ?? COMMA;
    if (code <= SPACE || code === COMMA || code === CLOSE_BRACKET || code === CLOSE_BRACE) break;
  }
  return at;
}
