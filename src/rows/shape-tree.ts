// The columns and tables of a resource as a tree that follows the nesting of a record (`shapeTree`), so that a value finds
// its column key by key: `author` is a slot with a level of its own, in which `name` is the slot of the column `author_name`.
import { fieldPathText } from '../model/body-path.ts';
import type { JsonValue } from '../model/json.ts';
import type { Column, ResourceShape, SourcePath, TableShape } from '../model/table.ts';
import { LOCAL, zoneAt, zoneNameAt, type ZonesByPath } from '../model/time-zone.ts';
import type { Contract } from '../model/vocabulary.ts';
import { cellConverter, type CellNotes, TO_CELL, type ToCell } from './columns/cells.ts';
import { columnPathOf, EACH, OVERFLOW, pathPart, pathText, sourceKey } from './columns/column-name.ts';
import { type FieldRule, findRule, hasFieldRules, type Pin } from './field-rules.ts';
import { hasContent, isObject } from './records/as-record.ts';

/** Child tables of one resource; arrays beyond them become JSON columns. */
const MAX_CHILD_TABLES = 64;
/** Conversions are only tried with it; what it notes is not used. */
export const IGNORED_NOTES: CellNotes = { repaired: 0 };

/** The part of a resource's profile (`config/profile/profile.ts`) that shaping needs. */
export interface ShapeProfile {
  /** Dotted path of the field that identifies a record, or several that do so together. */
  id: string | string[];
  /** Levels of objects and arrays that become columns and child tables. */
  depth: number;
  /** Dotted paths of fields kept as one JSON column. */
  json: readonly string[];
  /** Time zones by dotted path: those of fields whose times name none. */
  times: ZonesByPath;
  /** Columns per table made from source fields. */
  max_columns: number;
  contract: Contract;
  /** What the profile says of single fields, by dotted path. */
  fields?: Readonly<Record<string, FieldRule>>;
  /** Columns that hold keys of other records, as `table.column`. */
  references?: readonly string[];
}

/** A table in the tree, by its place in `ResourceShape.tables`. */
export interface TableNode {
  index: number;
  shape: TableShape;
  /** Index in the row of the overflow column; -1 without one. */
  overflowAt: number;
}

/** The fields of one object, or of one row. */
export interface Level {
  table: TableNode;
  path: SourcePath;
  /** Objects and arrays between the record and this level. */
  depth: number;
  slots: Map<string, Slot>;
}

/** One field (or "each element") and where its value goes: a column, columns of its fields, a table, or several. */
export interface Slot {
  table: TableNode;
  path: SourcePath;
  depth: number;
  /** True for the record's id, which is the key and no column. */
  skip: boolean;
  /** True if the profile wants it as one JSON column. */
  json: boolean;
  /** True if its texts are never read as times. */
  isText: boolean;
  /** The type that the profile gives its column; null if the values decide. */
  pin: Pin | null;
  /** The name that the profile gives its column or table. */
  rename: string | null;
  column: Column | null;
  /** Place in the row; -1 without a column. */
  at: number;
  /** Turns a value into the column's cell; valid as long as the column keeps its type. */
  toCell: ToCell;
  /** The fields of the object in it; null if it never was one. */
  level: Level | null;
  /** The table of the array in it; null if it never was one. */
  list: List | null;
}

/** An array whose elements are rows of `table`. */
export interface List {
  table: TableNode;
  element: Slot;
}

/** A resource's shape as a tree that follows the record, so that shaping looks up one key at a time. */
export interface ShapeTree {
  root: Level;
  tables: TableNode[];
  profile: ShapeProfile;
}

/** Builds the tree; its nodes share the `TableShape` and `Column` objects of `shape`. */
export function shapeTree(shape: ResourceShape, profile: ShapeProfile): ShapeTree {
  const [main, ...children] = shape.tables.map(newTable);
  if (main === undefined) throw new Error(`the shape of ${shape.resource} has no table`);
  const tree = { root: newLevel(main, [], 0), tables: [main, ...children], profile };
  // A child's path leads through its parent's, and parents come before their children.
  for (const child of children) openList(slotAt(tree, child.shape.path.slice(0, -1)), child, tree);
  // The id has its slot even before there are other fields.
  if (typeof profile.id === 'string') slotAt(tree, columnPathOf(profile.id) ?? []);
  for (const table of tree.tables) table.shape.columns.forEach((column, at) => placeColumn(tree, table, column, at));
  return tree;
}

/** A table without any row so far. */
export function newTable(shape: TableShape, index: number): TableNode {
  return { index, shape, overflowAt: -1 };
}

function newLevel(table: TableNode, path: SourcePath, depth: number): Level {
  return { table, path, depth, slots: new Map() };
}

function placeColumn(tree: ShapeTree, table: TableNode, column: Column, index: number): void {
  const at = table.shape.key.length + index;
  if (column.path.at(-1) === OVERFLOW) {
    table.overflowAt = at;
    return;
  }
  const slot = slotAt(tree, column.path);
  const zone = zoneAt(tree.profile.times, pathText(column.path));
  Object.assign(slot, { column, at, toCell: slot.pin?.toCell ?? cellConverter(column.type, zone) });
}

/** The slot for `key` in `level`, made if it is not there. */
export function openSlot(level: Level, key: string, profile: ShapeProfile): Slot {
  const found = level.slots.get(key);
  if (found !== undefined) return found;
  const slot = newSlot(level.table, [...level.path, pathPart(key)], level.depth, profile);
  level.slots.set(key, slot);
  return slot;
}

/** The slot of a field whose type the profile gives, made if it is not there; undefined for any other field. */
export function pinnedSlot(level: Level, key: string, profile: ShapeProfile): Slot | undefined {
  if (!hasFieldRules(profile) || findRule([...level.path, pathPart(key)], profile).pin === null) return undefined;
  return openSlot(level, key, profile);
}

/**
 * True if a slot with a pinned type takes the value: one that its column holds exactly, or a list of such, if the first
 * values were lists. What comes first decides, because neither may change the other.
 */
export function takesPinned(slot: Slot, value: JsonValue, tree: ShapeTree): boolean {
  const { pin } = slot;
  if (isObject(value) || pin === null) return false;
  if (!Array.isArray(value)) return slot.list === null && pin.toCell(value, IGNORED_NOTES) !== undefined;
  if (slot.column !== null) return false;
  return slot.list !== null || (slot.depth < tree.profile.depth && !isElement(slot) && hasRoomForTable(tree));
}

/** True if arrays may still become child tables. */
export function hasRoomForTable({ tables }: ShapeTree): boolean {
  return tables.length <= MAX_CHILD_TABLES;
}

/** An array within an array is no table of its own. */
export function isElement({ path, table }: Slot): boolean {
  return path.length === table.shape.path.length;
}

/** The level for the fields of the object in `slot`, made if it is not there. */
export function openLevel(slot: Slot): Level {
  slot.level ??= newLevel(slot.table, slot.path, slot.depth + 1);
  return slot.level;
}

/** Makes `table` the table of the array in `slot`. */
export function openList(slot: Slot, table: TableNode, tree: ShapeTree): List {
  slot.list ??= { table, element: newSlot(table, [...slot.path, EACH], slot.depth + 1, tree.profile) };
  return slot.list;
}

function newSlot(table: TableNode, path: SourcePath, depth: number, profile: ShapeProfile): Slot {
  const dotted = pathText(path);
  const { id } = profile;
  const isId = typeof id === 'string' && (dotted === id || dotted === fieldPathText(id));
  const skip = isId && !path.includes(EACH);
  const { json, pin, rename } = findRule(path, profile);
  const isText = zoneNameAt(profile.times, dotted) === LOCAL;
  const ruled = { table, path, depth, skip, json, isText, pin, rename };
  return { ...ruled, column: null, at: -1, toCell: TO_CELL.json, level: null, list: null };
}

/** The slot at a path from the record's root. */
function slotAt(tree: ShapeTree, path: SourcePath): Slot {
  let level = tree.root;
  let slot: Slot | null = null;
  for (const part of path) {
    if (slot !== null && part === EACH) {
      if (slot.list === null) throw new Error(`no table for ${pathText(path)}`);
      slot = slot.list.element;
      continue;
    }
    if (slot !== null) level = openLevel(slot);
    slot = openSlot(level, sourceKey(part), tree.profile);
  }
  if (slot === null) throw new Error('a column without a path');
  return slot;
}

/**
 * True if the value is worth storing: if it has content, or is or holds an object or array that always goes into one
 * JSON column. Such a column holds empty ones too, from the first on, so that the order of records makes no difference.
 */
export function isWorthStoring(path: SourcePath, value: JsonValue, profile: ShapeProfile): boolean {
  return hasContent(value) || holdsWhole(path, value, profile);
}

function holdsWhole(path: SourcePath, value: JsonValue, profile: ShapeProfile): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (isStoredWhole(path, profile)) return true;
  return (
    isObject(value) &&
    Object.entries(value).some(([key, field]) => holdsWhole([...path, pathPart(key)], field, profile))
  );
}

/** True if objects and arrays at the path always go into one JSON column. */
export function isStoredWhole(path: SourcePath, profile: ShapeProfile): boolean {
  return path.length > profile.depth || (hasFieldRules(profile) && findRule(path, profile).json);
}

/** True if the table has as many columns as the profile lets it have. */
export function isFull(table: TableNode, profile: ShapeProfile): boolean {
  const columns = table.shape.columns.length - (table.overflowAt < 0 ? 0 : 1);
  return columns >= profile.max_columns;
}
