import type { JsonValue, SourceRecord } from '../model/json.ts';
import { fieldAt } from './field-at.ts';
import { skipSpace, stringEnd, valueEnd } from './scan-json.ts';

/**
 * The records of a page, each with its own exact slice of the page's text. `json` is what `parseJson` made of `text`;
 * `path` is dotted, '' where the body itself is the array. Null where the path is missing or holds no array.
 */
export function selectRecords(text: string, json: JsonValue, path: string): SourceRecord[] | null {
  const values = fieldAt(json, path);
  if (!Array.isArray(values)) return null;
  let at = skipSpace(text, arrayStart(text, path) + 1);
  return values.map((value) => {
    const end = valueEnd(text, at);
    const record = { value, text: text.slice(at, end) };
    // After a value stands a comma, or the bracket that ends the array.
    at = skipSpace(text, skipSpace(text, end) + 1);
    return record;
  });
}

function arrayStart(text: string, path: string): number {
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
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? String(JSON.parse(text.slice(start, end))) : raw;
}
