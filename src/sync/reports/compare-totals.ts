import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import type { Day } from './report-days.ts';

/** A sum over a range that the service tells otherwise than it was counted. */
export interface TotalDifference {
  /** Field of the records. */
  field: string;
  /** Null if the answer tells none. */
  told: number | null;
  counted: number;
}

/** How it is remembered of each window of the range, as JSON. */
export interface ToldTotals {
  from: Day;
  /** The first day behind the range. */
  to: Day;
  differs: TotalDifference[];
}

/** Sums of fractions differ in their last digits by the order in which they are added. */
const TOLERANCE = 1e-9;

/** Compares the sums that an answer tells (`totals`: path in the body by field) with those of its records. Pure. */
export function compareTotals(
  totals: Readonly<Record<string, string>>,
  body: JsonValue,
  records: readonly SourceRecord[],
): TotalDifference[] {
  return Object.entries(totals).flatMap(([field, path]) => {
    const stated = fieldAt(body, path) ?? null;
    const told = numberOf(stated);
    const counted = records.reduce((sum, { value }) => sum + (numberOf(fieldAt(value, field)) ?? 0), 0);
    const isNothing = stated === null && records.length === 0;
    const isSame = told !== null && Math.abs(told - counted) <= TOLERANCE * Math.max(1, Math.abs(told));
    return isSame || isNothing ? [] : [{ field, told, counted }];
  });
}

/** True if more is told than listed: some services list so many rows per query and do not say so. */
export function isShort(differs: readonly TotalDifference[]): boolean {
  return differs.some(({ told, counted }) => told !== null && Math.abs(told) > Math.abs(counted));
}

/** Also of a number that is written as a text, as many services do. */
function numberOf(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value;
  const text = isExact(value) ? value.rawJSON : value;
  if (typeof text !== 'string' || text.trim() === '') return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}
