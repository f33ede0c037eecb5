import type { SourcePath } from '../model/table.ts';
import { zoneAt, type ZonesByPath } from '../model/time-zone.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import type { ToCell } from './columns/cells.ts';
import { pinnedCell } from './columns/pinned-cells.ts';
import { EACH, keysOfText, pathText } from './columns/source-path.ts';

/** What a profile says of the column, or of the child table, of one field. */
export interface FieldRule {
  type?: ColumnType | undefined;
  rename?: string | undefined;
  /** The object of others that keeps the column of the field from changing its type (`type`). */
  fixedBy?: string | undefined;
}

/** The part of `ShapeProfile` that holds it. */
interface Ruled {
  json: readonly string[];
  times: ZonesByPath;
  fields?: Readonly<Record<string, FieldRule>>;
}

/** A column's type that no value changes, and how values become cells of it. */
export interface Pin {
  type: ColumnType;
  toCell: ToCell;
  fixedBy?: string | undefined;
}

/** What holds for one place in a record. */
export interface PlaceRule {
  /** Objects and arrays there are one JSON column. */
  json: boolean;
  pin: Pin | null;
  rename: string | null;
}

const NO_FIELDS: Readonly<Record<string, FieldRule>> = {};

/** False if the profile says nothing of any field, which spares to look. */
export function holdsRules({ json, fields = NO_FIELDS }: Ruled): boolean {
  return json.length > 0 || Object.keys(fields).length > 0;
}

/** The type of a list's field is that of its elements, its name that of their table. */
export function ruleOf(path: SourcePath, { json, times, fields = NO_FIELDS }: Ruled): PlaceRule {
  const dotted = pathText(path);
  const { type, fixedBy, rename = null } = Object.hasOwn(fields, dotted) ? (fields[dotted] ?? {}) : {};
  return {
    json: type === 'json' || json.includes(dotted),
    pin:
      type === undefined || type === 'json' ? null : { type, fixedBy, toCell: pinnedCell(type, zoneAt(times, dotted)) },
    rename: path.at(-1) === EACH ? null : rename,
  };
}

/** Names that the profile gives the fields beside this one: no other field may have them. */
export function namesBeside(keys: readonly string[], { fields = NO_FIELDS }: Pick<Ruled, 'fields'>): string[] {
  return Object.entries(fields).flatMap(([path, { rename }]) => {
    const other = keysOfText(path);
    const isBeside = other.length === keys.length && other.slice(0, -1).every((key, at) => key === keys[at]);
    return rename === undefined || !isBeside || other.at(-1) === keys.at(-1) ? [] : [rename];
  });
}
