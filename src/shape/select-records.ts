import type { JsonValue, SourceRecord } from '../model/json.ts';
import { fieldAt, isObject } from './field-at.ts';
import { skipSpace, stringEnd, valueEnd } from './scan-json.ts';

/**
 * The records of a page, each with its own exact slice of the page. `json` is what `parseJson` made of `bytes` (UTF-8);
 * `path` is dotted, '' where the body itself is the array. Null where the path is missing or holds no array.
 */
export function selectRecords(bytes: Buffer, json: JsonValue, path: string): SourceRecord[] | null {
  const values = fieldAt(json, path);
  if (!Array.isArray(values)) return null;
  // One character per byte: all that structures JSON is ASCII, so positions in this text are positions in the bytes.
  const text = bytes.toString('latin1');
  let at = skipSpace(text, valueStart(text, path) + 1);
  return values.map((value) => {
    const end = valueEnd(text, at);
    const record = { value, bytes: bytes.subarray(at, end) };
    // After a value stands a comma, or the bracket that ends the array.
    at = skipSpace(text, skipSpace(text, end) + 1);
    return record;
  });
}

/** The one record of an answer, with its exact slice of the body; null where the path is missing or holds no object. */
export function selectRecord(bytes: Buffer, json: JsonValue, path: string): SourceRecord | null {
  const value = fieldAt(json, path);
  if (!isObject(value)) return null;
  const text = bytes.toString('latin1');
  const start = valueStart(text, path);
  return { value, bytes: bytes.subarray(start, valueEnd(text, start)) };
}

function valueStart(text: string, path: string): number {
  let at = skipSpace(text, 0);
  if (path === '') return at;
  for (const key of path.split('.')) at = memberStart(text, at, key);
  return at;
}

/** Where the value of `key` begins in the object at `open`; the last one, if the key stands there twice. */
function memberStart(text: string, open: number, key: string): number {
  let found = -1;
  let at = skipSpace(text, open + 1);
  while (text[at] === '"') {
    const keyEnd = stringEnd(text, at);
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    if (keyText(text, at, keyEnd) === key) found = start;
    const end = skipSpace(text, valueEnd(text, start));
    if (text[end] !== ',') break;
    at = skipSpace(text, end + 1);
  }
  return found;
}

function keyText(text: string, start: number, end: number): string {
  return String(JSON.parse(Buffer.from(text.slice(start, end), 'latin1').toString()));
}
