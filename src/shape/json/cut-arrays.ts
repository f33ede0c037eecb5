import type { JsonValue } from '../../model/json.ts';
import { CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE, skipBlank, stringEnd, valueEnd } from './scan-json.ts';

/*
 * Where the elements of arrays of objects lie in a body that may not be valid. Each place is guessed by native searches, and
 * proved by the parser: a text is an array of valid elements with commas between them in one way only, so elements that
 * are each valid by themselves are cut right.
 */

/** An array with its elements. */
export interface CutArray {
  bytes: Buffer;
  /** The array's bracket. */
  open: number;
  values: JsonValue[];
  /** Of each element the position where it begins and the one after it. */
  borders: number[];
  /** True if it holds several objects and nothing else. */
  isCut: boolean;
  /** The position after the array, or after what was read of it. */
  end: number;
}

/** A body, and the cheapest way to parse a part of it. */
export interface Body {
  bytes: Buffer;
  read: (text: string) => JsonValue;
}

/** So many bytes outside of arrays of objects are searched for one: it is all that is read one by one. */
const MOST_SEARCHED = 65_536;

/** The outermost arrays of several objects near the beginning of the body, in their order. */
export function cutArrays(body: Body): CutArray[] {
  const { bytes } = body;
  const arrays: CutArray[] = [];
  let searched = 0;
  for (let at = 0; at < bytes.length && searched < MOST_SEARCHED; searched++) {
    const code = bytes[at];
    if (code === OPEN_BRACKET && bytes[skipBlank(bytes, at + 1)] === OPEN_BRACE) {
      const array = cutArray(body, at);
      if (array.isCut) arrays.push(array);
      at = array.end;
      continue;
    }
    const next = code === QUOTE ? stringEnd(bytes, at) : at + 1;
    searched += next - at - 1;
    at = next;
  }
  return arrays;
}

/** The array of objects at `open`. Throws if one of them is not valid. */
function cutArray(body: Body, open: number): CutArray {
  const { bytes } = body;
  const first = skipBlank(bytes, open + 1);
  const firstEnd = valueEnd(bytes, first);
  const second = nextObject(bytes, firstEnd);
  const array: CutArray = { bytes, open, values: [], borders: [], isCut: false, end: firstEnd };
  if (second === null) return array;
  const key = skipBlank(bytes, second + 1);
  const seam = bytes.subarray(firstEnd - 1, bytes[key] === QUOTE ? stringEnd(bytes, key) : key + 1);
  // An element may itself hold such an array.
  const isPlain = bytes.indexOf(seam, first) === firstEnd - 1;
  addElements(body, array, first, isPlain ? { seam, gap: second - firstEnd } : null);
  return array;
}

/** What stands between the first two elements, with a byte before and the first key after: most often the same between all. */
interface Seam {
  seam: Buffer;
  /** Bytes between the elements themselves. */
  gap: number;
}

/** Adds the elements from `first` on, until one is no object. */
function addElements(body: Body, array: CutArray, first: number, expected: Seam | null): void {
  const { bytes, read } = body;
  const { values, borders } = array;
  let seam = expected;
  for (let start: number | null = first; start !== null;) {
    const seamAt: number = seam === null ? -1 : bytes.indexOf(seam.seam, start);
    const guessed: JsonValue | undefined = seamAt === -1 ? undefined : parsedIf(body, start, seamAt + 1);
    if (guessed === undefined) seam = null;
    const end: number = guessed === undefined ? valueEnd(bytes, start) : seamAt + 1;
    values.push(guessed ?? read(bytes.toString('utf8', start, end)));
    borders.push(start, end);
    if (seam !== null) {
      start = end + seam.gap;
      continue;
    }
    start = nextObject(bytes, end);
    const after = skipBlank(bytes, end);
    array.isCut = start === null && bytes[after] === CLOSE_BRACKET;
    array.end = array.isCut ? after + 1 : end;
  }
}

/** Where the object begins that follows a comma at `end`; null if none does. */
function nextObject(bytes: Buffer, end: number): number | null {
  const comma = skipBlank(bytes, end);
  const next = bytes[comma] === COMMA ? skipBlank(bytes, comma + 1) : -1;
  return bytes[next] === OPEN_BRACE ? next : null;
}

/** The element that reaches so far; undefined if there is no such element. */
function parsedIf({ bytes, read }: Body, start: number, end: number): JsonValue | undefined {
  try {
    return read(bytes.toString('utf8', start, end));
  } catch {
    return undefined;
  }
}
