import { randomUUID } from 'node:crypto';
import type { JsonValue } from '../../model/json.ts';
import { roughDigits } from './json-size.ts';
import { parseJson, readPlainText, readText } from './parse-json.ts';
import {
  BACKSLASH,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipBlank,
  stringEnd,
  valueEnd,
} from './scan-json.ts';

/*
 * Parses a body element by element where it holds arrays of objects. The rest of it is parsed with a
 * marker in place of each array.
 */

/** Where the elements of an array lie in the bytes of a body. */
export interface ArrayCut {
  bytes: Buffer;
  /** The array's bracket. */
  open: number;
  /** Of each element the position where it begins and the one after it. */
  borders: readonly number[];
}

/** Shorter bodies are parsed in one go. */
const LEAST = 8_192;
const cuts = new WeakMap<readonly JsonValue[], ArrayCut>();

/**
 * `parseJson` of bytes, which must be UTF-8 without a byte order mark. Remembers where elements lie: see `cutOf`.
 * `digits`: what `roughDigits` says of them, if that is known.
 */
export function parseBody(bytes: Buffer, digits?: number): JsonValue {
  return (isLong(bytes) ? parseInParts(bytes, digits) : null) ?? parseJson(bytes.toString());
}

/** False for a body that is parsed fastest in one go. */
function isLong(bytes: Buffer): boolean {
  return bytes.length >= LEAST;
}

/** Where the elements of an array lie that `parseBody` made of these bytes; null if it does not know. */
export function cutOf(bytes: Buffer, array: readonly JsonValue[]): ArrayCut | null {
  const cut = cuts.get(array);
  return cut?.bytes === bytes && cut.borders.length === 2 * array.length ? cut : null;
}

/** Null if the body holds no array of several objects that can be cut, or is not valid. */
export function parseInParts(bytes: Buffer, digits: number = roughDigits(bytes)): JsonValue | null {
  const isPlain = digits === 0 && !bytes.includes(BACKSLASH);
  const body = { bytes, read: isPlain ? readPlainText : readText };
  try {
    const arrays = cutArrays(body);
    return arrays.length > 0 ? assembled(body, arrays) : null;
  } catch {
    // What is not valid is parsed once more as a whole, for the parser's message.
    return null;
  }
}

/**
 * The whole body. A marker would not be valid within a text, so each stands where an array may stand. No service
 * knows what is written in it. An array may be gone because its key comes once more.
 */
function assembled(body: Body, arrays: readonly CutArray[]): JsonValue {
  const { bytes, read } = body;
  const name = `m${randomUUID()}`;
  const marked = new Map<JsonValue | undefined, CutArray>();
  let text = '';
  let from = 0;
  for (const array of arrays) {
    const marker = `${name}:${array.open}`;
    marked.set(marker, array);
    text += `${bytes.toString('utf8', from, array.open)}["${marker}"]`;
    from = array.end;
  }
  const json = read(text + bytes.toString('utf8', from));
  fill(json, marked);
  return json;
}

/** Puts the elements of each array in place of its marker. Does not recurse: any depth is fine. */
function fill(json: JsonValue, marked: ReadonlyMap<JsonValue | undefined, CutArray>): void {
  const open: JsonValue[] = [json];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next === null || typeof next !== 'object') continue;
    const cut = Array.isArray(next) && next.length === 1 ? marked.get(next[0]) : undefined;
    if (cut === undefined || !Array.isArray(next)) {
      for (const value of Object.values(next)) if (typeof value === 'object') open.push(value);
      continue;
    }
    next.length = 0;
    for (const value of cut.values) next.push(value);
    const { bytes, open: at, borders } = cut;
    cuts.set(next, { bytes, open: at, borders });
  }
}

/*
 * Where the elements of arrays of objects lie in a body that may not be valid. Each place is guessed by native searches, and
 * proved by the parser: a text is an array of valid elements with commas between them in one way only, so elements that
 * are each valid by themselves are cut right.
 */

/** An array with its elements. */
interface CutArray {
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
