import { randomUUID } from 'node:crypto';
import type { JsonValue } from '../../model/json.ts';
import { cutArrays, parsedIf, type Body, type CutArray } from './cut-arrays.ts';
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
  /** What is known of each element besides its value; absent if nothing is. */
  known?: readonly KnownElement[];
}

/** An element that was looked at before it was read. */
export interface KnownElement {
  /** A view into the body. */
  source: Buffer;
  /** `textHash` of the source. */
  hash: string;
  /** What stands in place of its value, because somebody needs no more of it; null if it was read. */
  partial: JsonValue | null;
}

/** An array whose elements are still to be read; until then its values are empty objects. */
export interface UnreadArray {
  bytes: Buffer;
  /** Of each element the position where it begins and the one after it. */
  borders: readonly number[];
  /** True if elements are read by `elementReader(true)`. */
  isPlain: boolean;
  values: JsonValue[];
  /** Of each element, a view into the body. */
  sources: () => Buffer[];
  /** Reads one of them; undefined if there is no such element after all. */
  read: (index: number) => JsonValue | undefined;
}

/** Shorter bodies are parsed in one go. */
const LEAST = 8_192;
const cuts = new WeakMap<readonly JsonValue[], ArrayCut>();
const unreads = new WeakMap<readonly JsonValue[], UnreadArray>();

/**
 * `parseJson` of bytes, which must be UTF-8 without a byte order mark. Remembers where elements lie: see `cutOf`.
 * `digits`: what `roughDigits` says of them, if that is known.
 */
export function parseBody(bytes: Buffer, digits?: number): JsonValue {
  return (isLong(bytes) ? parseInParts(bytes, digits) : null) ?? parseJson(bytes.toString());
}

/** False for a body that is parsed fastest in one go. */
export function isLong(bytes: Buffer): boolean {
  return bytes.length >= LEAST;
}

/** Where the elements of an array lie that `parseBody` made of these bytes; null if it does not know. */
export function cutOf(bytes: Buffer, array: readonly JsonValue[]): ArrayCut | null {
  const cut = cuts.get(array);
  return cut?.bytes === bytes && cut.borders.length === 2 * array.length ? cut : null;
}

/** Null if the body holds no array of several objects that can be cut, or is not valid. */
export function parseInParts(bytes: Buffer, digits: number = roughDigits(bytes)): JsonValue | null {
  return inParts(bytes, digits, false, (arrays) => arrays.length > 0);
}

/**
 * The same with elements of its only such array left unread: they are proved to be elements by being read, or by their
 * whole source being known. To be followed by `readRest`. Null if the body is not of that form.
 */
export function parseAround(bytes: Buffer, digits: number): JsonValue | null {
  return inParts(bytes, digits, true, (arrays) => arrays.length === 1 && (arrays[0]?.unread ?? 0) > 0);
}

/** What `parseAround` has left unread of an array of its own; null if nothing. */
export function unreadOf(array: JsonValue | undefined): UnreadArray | null {
  return Array.isArray(array) ? (unreads.get(array) ?? null) : null;
}

/**
 * Reads those elements of an unread array that have nothing in their place. False if one of them cannot be read: then the
 * body is to be parsed as a whole.
 */
export function readRest({ values, read }: UnreadArray, known: readonly KnownElement[]): boolean {
  for (let index = 0; index < values.length; index += 1) {
    const value = known[index]?.partial ?? read(index);
    if (value === undefined) return false;
    values[index] = value;
  }
  const cut = cuts.get(values);
  if (cut !== undefined) cuts.set(values, { ...cut, known });
  unreads.delete(values);
  return true;
}

/** Null also if the arrays that were found are not `wanted`. */
function inParts(
  bytes: Buffer,
  digits: number,
  isLazy: boolean,
  wanted: (arrays: readonly CutArray[]) => boolean,
): JsonValue | null {
  const isPlain = digits === 0 && !bytes.includes(BACKSLASH);
  const body = { bytes, read: elementReader(isPlain), isPlain, isLazy };
  try {
    const arrays = cutArrays(body);
    return wanted(arrays) ? assembled(body, arrays) : null;
  } catch {
    // What is not valid is parsed once more as a whole, for the parser's message.
    return null;
  }
}

/** Reads the text of an element, with the parser's own errors; `isPlain`: the body has no backslash and no long number. */
export function elementReader(isPlain: boolean): (text: string) => JsonValue {
  return isPlain ? readPlainText : readText;
}

/** A body whose elements are read by `elementReader(isPlain)`. */
interface ReadBody extends Body {
  isPlain: boolean;
}

/**
 * The whole body. A marker would not be valid within a text, so each stands where an array may stand. No service
 * knows what is written in it. An array may be gone because its key comes once more.
 */
function assembled(body: ReadBody, arrays: readonly CutArray[]): JsonValue {
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
  fill(body, json, marked);
  return json;
}

/** Puts the elements of each array in place of its marker. Does not recurse: any depth is fine. */
function fill(body: ReadBody, json: JsonValue, marked: ReadonlyMap<JsonValue | undefined, CutArray>): void {
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
    if (cut.unread > 0) unreads.set(next, unreadArray(body, next, borders));
  }
}

function unreadArray(body: ReadBody, values: JsonValue[], borders: readonly number[]): UnreadArray {
  const { bytes, isPlain } = body;
  const sources = (): Buffer[] => values.map((_, index) => bytes.subarray(borders[2 * index], borders[2 * index + 1]));
  // The first and the last one are read already.
  const isRead = (index: number): boolean => index === 0 || index === values.length - 1;
  const read = (index: number): JsonValue | undefined =>
    isRead(index) ? values[index] : parsedIf(body, borders[2 * index] ?? 0, borders[2 * index + 1] ?? 0);
  return { bytes, borders, isPlain, values, sources, read };
}
