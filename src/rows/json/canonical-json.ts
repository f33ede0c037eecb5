// Writes equal numbers and equal JSON in one way, so that the cells of two databases can be compared: one may show `1.10`
// where the other shows `1.1`.
import type { JsonValue } from '../../model/json.ts';
import { isExact, parseJson, significand } from './parse-json.ts';

const DECIMAL = /^([+-]?)(?=\d|\.\d|$)\d*\.?\d*(?:[eE][+-]?\d+)?$/;

/** One spelling for equal numbers: `1.10`, `1.1` and `110E-2` are `11e-1`. Anything else stays as it is. */
export function canonicalDecimal(text: string): string {
  const [match, sign] = DECIMAL.exec(text) ?? [];
  if (match === undefined) return text;
  const digits = significand(text.replace('+', ''));
  return digits === '0e0' ? '0' : `${sign === '-' ? '-' : ''}${digits}`;
}

/**
 * One spelling for equal JSON: members by name, numbers as above, the last of several members of one name. Text that is
 * no JSON stays as it is.
 */
export function canonicalJson(text: string): string {
  try {
    return JSON.stringify(canonicalValue(parseJson(text)));
  } catch {
    return text;
  }
}

function canonicalValue(value: JsonValue): JsonValue {
  if (typeof value === 'number') return JSON.rawJSON(canonicalDecimal(String(value)));
  if (typeof value !== 'object' || value === null) return value;
  if (isExact(value)) return JSON.rawJSON(canonicalDecimal(value.rawJSON));
  if (Array.isArray(value)) return value.map(canonicalValue);
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, canonicalValue(member)]));
}
