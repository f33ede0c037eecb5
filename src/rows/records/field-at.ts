import { type PathStep, stepsOf } from '../../model/body-path.ts';
import type { JsonObject, JsonValue, SourceRecord } from '../../model/json.ts';
import { CLOSE_BRACE, isExact, skipSpace } from '../json/parse-json.ts';

/** True for a JSON object: no array, no null, no number kept by its digits. */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExact(value);
}

/**
 * The value at a path (`model/body-path.ts`; '' is the value itself); undefined if any step is missing or leads to many
 * values.
 */
export function fieldAt(value: JsonValue, path: string): JsonValue | undefined {
  let at: JsonValue | undefined = value;
  for (const step of stepsOf(path)) {
    at = stepInto(at, step);
    if (at === undefined) return undefined;
  }
  return at;
}

/** The value one step further; undefined without one. */
export function stepInto(value: JsonValue | undefined, step: PathStep): JsonValue | undefined {
  if (typeof step === 'string') return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
  return typeof step === 'number' && Array.isArray(value) ? value.at(step) : undefined;
}

/**
 * True if anything in the value needs a column or a row: a text, a number, a boolean or an element of an array, on any
 * level; false for null, empty arrays and objects without such a value. An element counts whatever it is, so that an
 * array has as many rows when it comes before others as when it comes after them. Recurses: only for records within the
 * depth limit.
 */
export function hasContent(value: JsonValue | undefined): boolean {
  if (value === null || value === undefined) return false;
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) ? Object.values(value).some(hasContent) : true;
}

/**
 * The record with a field that is known from where it was found: the key of a map, or the listing that it comes from.
 * The field comes first in the record and in its body, whose other bytes stay as they are. A record that has the
 * field, or is no object, stays as it is.
 */
export function withField(record: SourceRecord, field: string, text: string): SourceRecord {
  const { value, bytes } = record;
  if (!isObject(value) || Object.hasOwn(value, field)) return record;
  const rest = bytes.subarray(1);
  const isEmpty = bytes[skipSpace(bytes, 1)] === CLOSE_BRACE;
  const member = `{${JSON.stringify(field)}:${JSON.stringify(text)}${isEmpty ? '' : ','}`;
  return { ...record, value: { [field]: text, ...value }, bytes: Buffer.concat([Buffer.from(member), rest]) };
}

/** A value that a field is compared with. */
type Scalar = string | number | boolean | null;

/** What a field must be. A missing field is null; of an array, each element counts. `exists`: there, and not null. */
export interface RecordCondition {
  field: string;
  in?: readonly Scalar[] | undefined;
  not_in?: readonly Scalar[] | undefined;
  exists?: boolean | undefined;
}

/** True if the record meets all conditions. */
export function meets(record: JsonValue, conditions: readonly RecordCondition[]): boolean {
  return conditions.every((condition) => meetsOne(record, condition));
}

function meetsOne(record: JsonValue, { field, in: wanted, not_in: unwanted, exists }: RecordCondition): boolean {
  const value = fieldAt(record, field) ?? null;
  if (exists !== undefined && (value !== null) !== exists) return false;
  if (wanted !== undefined && !isAmong(value, wanted)) return false;
  return unwanted === undefined || !isAmong(value, unwanted);
}

function isAmong(value: JsonValue, scalars: readonly Scalar[]): boolean {
  const values = Array.isArray(value) ? value : [value];
  return values.some((each) => scalars.some((scalar) => isSame(each, scalar)));
}

/** A long number is compared by its digits, also with a text of them: YAML keeps no more than a double. */
function isSame(value: JsonValue, scalar: Scalar): boolean {
  return isExact(value) ? value.rawJSON === String(scalar) : value === scalar;
}
