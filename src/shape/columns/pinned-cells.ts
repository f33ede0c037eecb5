import type { JsonValue } from '../../model/json.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { parseJson } from '../json/parse-json.ts';
import { cellOf, TO_CELL, type ToCell } from './cells.ts';
import { toDateText, toTimestampText } from './timestamps.ts';

/** A number as JSON writes it. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

const BOOLEANS: ReadonlyMap<JsonValue, boolean> = new Map<JsonValue, boolean>([
  [0, false],
  [1, true],
  ['0', false],
  ['1', true],
  ['false', false],
  ['true', true],
]);

/** A value of another kind that says exactly the same as one of the type; the value itself if there is none. */
const AS_TYPE: Partial<Record<ColumnType, (value: JsonValue, zone: TimeZone | null) => JsonValue>> = {
  boolean: (value) => BOOLEANS.get(typeof value === 'string' ? value.toLowerCase() : value) ?? value,
  integer: asNumber,
  double: asNumber,
  numeric: asNumber,
  date: (value, zone) => (typeof value === 'string' ? dayOf(value, zone) : value),
};

/**
 * The conversion to a type that the profile gives a field. It takes what a column of the type takes, and what says the
 * same in another way: a number as a text, true and false as 0, 1 or texts, a moment at the first second of a day.
 */
export function pinnedCell(type: ColumnType, zone: TimeZone | null): ToCell {
  const toCell = cellOf(type, zone);
  const asType = AS_TYPE[type];
  if (asType === undefined) return toCell;
  return (value, notes) => {
    const cell = toCell(value, notes);
    if (cell !== undefined) return cell;
    const same = asType(value, zone);
    return same === value ? undefined : TO_CELL[type](same, notes);
  };
}

function asNumber(value: JsonValue): JsonValue {
  return typeof value === 'string' && NUMBER.test(value) ? parseJson(value) : value;
}

/** The day of which the text is the first moment, in UTC as the cell of a moment is. */
function dayOf(text: string, zone: TimeZone | null): string {
  const moment = toTimestampText(text, zone);
  const day = moment?.endsWith(' 00:00:00') === true ? toDateText(moment.slice(0, 10)) : null;
  return day ?? text;
}
