import { COMMA, isDigitOrPoint, LONG_DIGITS, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringEnd } from './scan-json.ts';

/*
 * Measures a JSON text by its bytes before it is parsed: a parsed value takes up to a hundred bytes for two of the
 * text's. Nothing is validated and nothing recurses.
 */

/** The same byte four times over, for words of four bytes. */
const ONES = 0x01010101;
const COMMAS = COMMA * ONES;
const BRACES = OPEN_BRACE * ONES;
/** The bit in which the brace differs from the bracket, and the lower case from the upper. */
const CASE = 0x20 * ONES;
/** The highest bit of each of the four. */
const HIGH_BITS = (0x80 * ONES) | 0;
/** Words that may be summed before a byte overflows: each adds two at most. */
const WORDS = 120;

/** Values of a text on all levels, and the characters of its numbers of sixteen digits and more. */
export interface JsonSize {
  values: number;
  digits: number;
}

/**
 * `exactSize`, but also counts what only looks like a value or a number within a string: never less, often the same,
 * and several times as fast.
 */
export function roughSize(bytes: Uint8Array): JsonSize {
  return { values: roughValues(bytes), digits: roughDigits(bytes) };
}

/** The size of valid JSON. */
export function exactSize(bytes: Uint8Array): JsonSize {
  let [values, digits] = [1, 0];
  let at = 0;
  while (at < bytes.length) {
    const code = bytes[at] ?? 0;
    if (code === QUOTE) {
      at = stringEnd(bytes, at);
      continue;
    }
    if (opensValue(code)) values += 1;
    else if (isDigitOrPoint(code)) {
      const start = at;
      while (isDigitOrPoint(bytes[at + 1] ?? 0)) at += 1;
      if (at + 1 - start >= LONG_DIGITS) digits += at + 1 - start;
    }
    at += 1;
  }
  return { values, digits };
}

/** Each value follows a comma, or is the first in an array or object. */
function opensValue(code: number): boolean {
  return code === COMMA || code === OPEN_BRACKET || code === OPEN_BRACE;
}

function roughValues(bytes: Uint8Array): number {
  const head = -bytes.byteOffset & 3;
  if (bytes.length < head) return 1 + countBytes(bytes);
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + head, (bytes.length - head) >> 2);
  const tail = bytes.subarray(head + words.length * 4);
  let count = 1 + countBytes(bytes.subarray(0, head)) + countBytes(tail);
  for (let start = 0; start < words.length; start += WORDS) count += countWords(words, start);
  return count;
}

function countBytes(bytes: Uint8Array): number {
  let count = 0;
  for (const code of bytes) if (opensValue(code)) count += 1;
  return count;
}

/** Counts four bytes at a time, each of the four in its own byte of the sum. A byte after a hit may count as well. */
function countWords(words: Int32Array, start: number): number {
  const end = Math.min(words.length, start + WORDS);
  let sums = 0;
  for (let at = start; at < end; at++) {
    const word = words[at] ?? 0;
    const commas = word ^ COMMAS;
    const opens = (word | CASE) ^ BRACES;
    sums = (sums + (zeros(commas) >>> 7) + (zeros(opens) >>> 7)) | 0;
  }
  return (sums & 255) + ((sums >>> 8) & 255) + ((sums >>> 16) & 255) + (sums >>> 24);
}

/** The highest bit of each byte that is zero. */
function zeros(word: number): number {
  return (word - ONES) & ~word & HIGH_BITS;
}

/**
 * The digits of `roughSize`; 0 only if no number is that long. Looks at every sixteenth byte only: no run of sixteen digits
 * passes between two looks.
 */
export function roughDigits(bytes: Uint8Array): number {
  let digits = 0;
  for (let at = LONG_DIGITS - 1; at < bytes.length; at += LONG_DIGITS) {
    if (!isDigitOrPoint(bytes[at] ?? 0)) continue;
    let start = at;
    let end = at + 1;
    while (isDigitOrPoint(bytes[start - 1] ?? 0)) start -= 1;
    while (isDigitOrPoint(bytes[end] ?? 0)) end += 1;
    if (end - start >= LONG_DIGITS) digits += end - start;
    at = end;
  }
  return digits;
}
