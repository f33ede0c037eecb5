import type { JsonValue } from '../../model/json.ts';
import { BACKSLASH, LONG_DIGITS, QUOTE, skipBlank, stringEnd, valueEnd } from '../json/scan-json.ts';
import { membersOf } from './select-records.ts';

const COLON = 58;
const INTEGER = /^-?\d+$/;

/** Finds a member in the source of a record without reading the record; undefined for one that is not found so. */
export type GuessMember = (record: Buffer) => JsonValue | undefined;

/**
 * Guesses where the records of a listing have one of their own members by where an example of them has it: behind as many
 * others of the same name, within objects of its own, as there. Only a guess: a record may be made otherwise. Null if the
 * example, a valid object, has no such member.
 */
export function memberGuess(example: Buffer, name: string): GuessMember | null {
  const start = membersOf(example, 0).get(name);
  if (start === undefined) return null;
  const label = Buffer.from(JSON.stringify(name));
  let before = 0;
  for (let at = example.indexOf(label); at !== -1 && at < start; at = example.indexOf(label, at + 1)) before += 1;
  return (record) => {
    let at = -1;
    for (let nth = 0; nth < before; nth += 1) {
      at = record.indexOf(label, at + 1);
      if (at === -1) return undefined;
    }
    const colon = skipBlank(record, at + label.length);
    return record[colon] === COLON ? shortValue(record, skipBlank(record, colon + 1)) : undefined;
  };
}

/** A text without escapes, or an integer that is exact as a number; undefined for any other value. */
function shortValue(record: Buffer, start: number): JsonValue | undefined {
  if (record[start] === QUOTE) {
    const end = stringEnd(record, start);
    const text = record.subarray(start + 1, end - 1);
    return text.includes(BACKSLASH) ? undefined : text.toString();
  }
  const digits = record.toString('latin1', start, valueEnd(record, start));
  return digits.length < LONG_DIGITS && INTEGER.test(digits) ? Number(digits) : undefined;
}
