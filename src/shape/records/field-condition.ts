import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../json/exact-number.ts';
import { fieldAt } from './field-at.ts';

/** A value that a field is compared with. */
export type Scalar = string | number | boolean | null;

/** What a field must be. A missing field is null; of an array, each element counts. `exists`: there, and not null. */
export interface FieldCondition {
  field: string;
  in?: readonly Scalar[] | undefined;
  not_in?: readonly Scalar[] | undefined;
  exists?: boolean | undefined;
}

/** True if the record meets all conditions. */
export function meets(record: JsonValue, conditions: readonly FieldCondition[]): boolean {
  return conditions.every((condition) => meetsOne(record, condition));
}

function meetsOne(record: JsonValue, { field, in: wanted, not_in: unwanted, exists }: FieldCondition): boolean {
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
