import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { COMMA, QUOTE, skipSpace, stringEnd, valueEnd } from '../json/scan-json.ts';
import { fieldAt, isObject } from './field-at.ts';

/**
 * The records of a page, each with its own exact slice of the page. `json` is what `parseJson` made of `bytes` (UTF-8);
 * `path` is dotted, '' if the body itself is the array. Null if the path is missing or holds no array.
 */
export function selectRecords(bytes: Buffer, json: JsonValue, path: string): SourceRecord[] | null {
  const values = fieldAt(json, path);
  if (!Array.isArray(values)) return null;
  let at = skipSpace(bytes, valueStart(bytes, path) + 1);
  return values.map((value) => {
    const end = valueEnd(bytes, at);
    const record = { value, bytes: bytes.subarray(at, end) };
    // A value is followed by a comma, or by the bracket that ends the array.
    at = skipSpace(bytes, skipSpace(bytes, end) + 1);
    return record;
  });
}

/** The one record of an answer, with its exact slice of the body; null if the path is missing or holds no object. */
export function selectRecord(bytes: Buffer, json: JsonValue, path: string): SourceRecord | null {
  const value = fieldAt(json, path);
  if (!isObject(value)) return null;
  const start = valueStart(bytes, path);
  return { value, bytes: bytes.subarray(start, valueEnd(bytes, start)) };
}

function valueStart(bytes: Buffer, path: string): number {
  let at = skipSpace(bytes, 0);
  if (path === '') return at;
  for (const key of path.split('.')) at = memberStart(bytes, at, key);
  return at;
}

/** The start of the value of `key` in the object at `open`; the last one, if the key occurs twice. */
function memberStart(bytes: Buffer, open: number, key: string): number {
  let found = -1;
  let at = skipSpace(bytes, open + 1);
  while (bytes[at] === QUOTE) {
    const keyEnd = stringEnd(bytes, at);
    const start = skipSpace(bytes, skipSpace(bytes, keyEnd) + 1);
    if (keyText(bytes, at, keyEnd) === key) found = start;
    const end = skipSpace(bytes, valueEnd(bytes, start));
    if (bytes[end] !== COMMA) break;
    at = skipSpace(bytes, end + 1);
  }
  return found;
}

function keyText(bytes: Buffer, start: number, end: number): string {
  return String(JSON.parse(bytes.toString('utf8', start, end)));
}
