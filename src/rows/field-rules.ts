// The rules of the profile for single fields (`findRule`): a fixed type, another name, or one JSON column for the whole value.
// A fixed type also takes equal values in another form: `"7"` for an integer, `0` for a boolean.
import type { JsonValue } from '../model/json.ts';
import type { SourcePath } from '../model/table.ts';
import { type TimeZone, zoneAt, type ZonesByPath } from '../model/time-zone.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { cellConverter, TO_CELL, type ToCell, toDateText, toTimestampText } from './columns/cells.ts';
import { EACH, keysOfText, pathText } from './columns/column-name.ts';
import { parseJson } from './json/parse-json.ts';

/** The rule for the column, or the child table, of one field. */
export interface FieldRule {
  type?: ColumnType | undefined;
  rename?: string | undefined;
  /** The external object that keeps the field's column from changing its type (`type`). */
  fixedBy?: string | undefined;
}

/** The part of `ShapeProfile` that contains the rules. */
interface Ruled {
  json: readonly string[];
  times: ZonesByPath;
  fields?: Readonly<Record<string, FieldRule>>;
}

/** A type that the profile fixes, so that no value widens it, and the conversion of values to it. */
export interface FixedType {
  type: ColumnType;
  toCell: ToCell;
  fixedBy?: string | undefined;
}

/** The rules for the field at one path, resolved. */
export interface PathRule {
  /** Objects and arrays are stored whole, in one JSON column. */
  json: boolean;
  fixedType: FixedType | null;
  rename: string | null;
}

const NO_FIELDS: Readonly<Record<string, FieldRule>> = {};

/** False if the profile has no rule for any field: then no lookup is needed. */
export function hasFieldRules({ json, fields = NO_FIELDS }: Ruled): boolean {
  return json.length > 0 || Object.keys(fields).length > 0;
}

/** Returns the rules for a path. For a list, `type` is that of its elements and `rename` that of their table. */
export function findRule(path: SourcePath, { json, times, fields = NO_FIELDS }: Ruled): PathRule {
  const dotted = pathText(path);
  const { type, fixedBy, rename = null } = Object.hasOwn(fields, dotted) ? (fields[dotted] ?? {}) : {};
  return {
    json: type === 'json' || json.includes(dotted),
    fixedType:
      type === undefined || type === 'json'
        ? null
        : { type, fixedBy, toCell: fixedTypeConverter(type, zoneAt(times, dotted)) },
    rename: path.at(-1) === EACH ? null : rename,
  };
}

/** Names that the profile gives to siblings of this field: no other field may have them. */
export function siblingNames(keys: readonly string[], { fields = NO_FIELDS }: Ruled): string[] {
  return Object.entries(fields).flatMap(([path, { rename }]) => {
    const other = keysOfText(path);
    const isSibling = other.length === keys.length && other.slice(0, -1).every((key, at) => key === keys[at]);
    return rename === undefined || !isSibling || other.at(-1) === keys.at(-1) ? [] : [rename];
  });
}

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

/** Converts a value of another JSON kind to the equal value of the type; returns the value itself if there is none. */
const AS_TYPE: Partial<Record<ColumnType, (value: JsonValue, zone: TimeZone | null) => JsonValue>> = {
  boolean: (value) => BOOLEANS.get(typeof value === 'string' ? value.toLowerCase() : value) ?? value,
  integer: asNumber,
  double: asNumber,
  numeric: asNumber,
  date: (value, zone) => (typeof value === 'string' ? dayOf(value, zone) : value),
};

/**
 * Returns the conversion to a type that the profile fixes. Besides values of the type it accepts equal ones in another
 * form: a number as a text, true and false as 0, 1 or texts, a time at the first second of a day.
 */
function fixedTypeConverter(type: ColumnType, zone: TimeZone | null): ToCell {
  const toCell = cellConverter(type, zone);
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

/** The day that begins at this time, in UTC as timestamp cells are. */
function dayOf(text: string, zone: TimeZone | null): string {
  const moment = toTimestampText(text, zone);
  const day = moment?.endsWith(' 00:00:00') === true ? toDateText(moment.slice(0, 10)) : null;
  return day ?? text;
}
