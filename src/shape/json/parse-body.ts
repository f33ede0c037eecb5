import { randomUUID } from 'node:crypto';
import type { JsonValue } from '../../model/json.ts';
import { cutArrays, type Body, type CutArray } from './cut-arrays.ts';
import { roughDigits } from './json-size.ts';
import { parseJson, readPlainText, readText } from './parse-json.ts';
import { BACKSLASH } from './scan-json.ts';

/*
 * Parses a body element by element where it holds arrays of objects (`cut-arrays.ts`). The rest of it is parsed with a
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
