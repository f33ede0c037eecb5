import type { JsonObject, JsonValue, SourceRecord } from '../../model/json.ts';
import { parseJson } from '../json/parse-json.ts';
import { limitRejection } from './record-limits.ts';
import { isObject } from './field-at.ts';

/**
 * The parts of one record as one, its value as the service would have sent it: objects are merged on all levels, arrays
 * appended, of other values the last one that is not null stays. A single part stays as it is, to the byte; so does one
 * beyond the limits of records, which is to be rejected.
 */
export function mergeParts(parts: readonly [SourceRecord, ...SourceRecord[]]): SourceRecord {
  const [first, ...others] = parts;
  if (others.length === 0) return first;
  const beyond = parts.find(({ value, bytes }) => limitRejection(value, bytes.length) !== null);
  if (beyond !== undefined) return beyond;
  const value = others.reduce((merged, part) => mergeValues(merged, sourceOf(part)), sourceOf(first));
  return { value, bytes: Buffer.from(JSON.stringify(value)) };
}

/** As it was sent, whatever has been unwrapped and hidden in it since. */
function sourceOf({ bytes, asSent = bytes }: SourceRecord): JsonValue {
  return parseJson(asSent.toString());
}

function mergeValues(before: JsonValue, after: JsonValue): JsonValue {
  if (after === null) return before;
  if (Array.isArray(before) && Array.isArray(after)) return [...before, ...after];
  return isObject(before) && isObject(after) ? mergeObjects(before, after) : after;
}

function mergeObjects(before: JsonObject, after: JsonObject): JsonObject {
  const members = new Map(Object.entries(before));
  for (const [key, value] of Object.entries(after)) {
    const known = members.get(key);
    members.set(key, known === undefined ? value : mergeValues(known, value));
  }
  return Object.fromEntries(members);
}
