// The columns and tables of a resource as a tree that follows the nesting of a record (`shapeTree`), so that a value finds
// its column key by key: `author` is a slot with a level of its own, in which `name` is the slot of the column `author_name`.
import { fieldPathText } from '../model/body-path.ts';
import type { JsonValue } from '../model/json.ts';
import type { Column, ResourceShape, SourcePath, TableShape } from '../model/table.ts';
import { LOCAL, zoneAt, zoneNameAt, type ZonesByPath } from '../model/time-zone.ts';
import type { Contract } from '../model/vocabulary.ts';
import { cellConverter, type CellNotes, TO_CELL, type ToCell } from './columns/cells.ts';
import { columnPathOf, EACH, OVERFLOW, pathPart, pathText, sourceKey } from './columns/column-name.ts';
import { type FieldRule, findRule, hasFieldRules, type FixedType } from './field-rules.ts';
import { hasContent, isObject } from './records/as-record.ts';

/** Child tables of one resource; arrays beyond them become JSON columns. */
const MAX_CHILD_TABLES = 64;
/** For conversions that are only tried: nobody reads these notes. */
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
  /** Rules of the profile for single fields, by dotted path. */
  fields?: Readonly<Record<string, FieldRule>>;
  /** Columns that hold keys of other records, as `table.column`. */
  references?: readonly string[];
}

/** A table in the tree. */
export interface TableNode {
  /** Its index in `ResourceShape.tables`. */
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
  /** True for the record's id, which is the key of the row and needs no column. */
  isId: boolean;
  /** True if the profile stores it as one JSON column. */
  json: boolean;
  /** True if its texts are never read as times. */
  isText: boolean;
  /** The type that the profile fixes for its column; null if the values decide. */
  fixedType: FixedType | null;
  /** The name that the profile gives its column or table. */
  rename: string | null;
  column: Column | null;
  /** Index of the column's cell in the row; -1 without a column. */
  cellIndex: number;
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
  for (const child of children) ensureList(ensureSlotAt(tree, child.shape.path.slice(0, -1)), child, tree);
  // The id has its slot even before there are other fields.
  if (typeof profile.id === 'string') ensureSlotAt(tree, columnPathOf(profile.id) ?? []);
  for (const table of tree.tables) table.shape.columns.forEach((column, at) => placeColumn(tree, table, column, at));
  return tree;
}

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
  const slot = ensureSlotAt(tree, column.path);
  const zone = zoneAt(tree.profile.times, pathText(column.path));
  Object.assign(slot, { column, cellIndex: at, toCell: slot.fixedType?.toCell ?? cellConverter(column.type, zone) });
}

/** The slot for `key` in `level`, made if it is missing. */
export function ensureSlot(level: Level, key: string, profile: ShapeProfile): Slot {
  const found = level.slots.get(key);
  if (found !== undefined) return found;
  const slot = newSlot(level.table, [...level.path, pathPart(key)], level.depth, profile);
  level.slots.set(key, slot);
  return slot;
}

/** The slot of a field whose type the profile fixes, made if it is missing; undefined for any other field. */
export function slotOfFixedType(level: Level, key: string, profile: ShapeProfile): Slot | undefined {
  if (!hasFieldRules(profile) || findRule([...level.path, pathPart(key)], profile).fixedType === null) return undefined;
  return ensureSlot(level, key, profile);
}

/**
 * True if a slot whose type is fixed can store the value: a scalar that the type holds exactly, or a list. The first value
 * decides whether the field has a column for scalars or a table for lists, because neither may replace the other.
 */
export function acceptsFixedType(slot: Slot, value: JsonValue, tree: ShapeTree): boolean {
  const { fixedType } = slot;
  if (isObject(value) || fixedType === null) return false;
  if (!Array.isArray(value)) return slot.list === null && fixedType.toCell(value, IGNORED_NOTES) !== undefined;
  if (slot.column !== null) return false;
  return slot.list !== null || (slot.depth < tree.profile.depth && !isElement(slot) && hasRoomForTable(tree));
}

/** True if arrays may still become child tables. */
export function hasRoomForTable({ tables }: ShapeTree): boolean {
  return tables.length <= MAX_CHILD_TABLES;
}

/** True for an element of an array: an array in it becomes no table of its own. */
export function isElement({ path, table }: Slot): boolean {
  return path.length === table.shape.path.length;
}

/** The level for the fields of the object in `slot`, made if it is missing. */
export function ensureLevel(slot: Slot): Level {
  slot.level ??= newLevel(slot.table, slot.path, slot.depth + 1);
  return slot.level;
}

/** The list of the array in `slot`, made with `table` if it is missing. */
export function ensureList(slot: Slot, table: TableNode, tree: ShapeTree): List {
  slot.list ??= { table, element: newSlot(table, [...slot.path, EACH], slot.depth + 1, tree.profile) };
  return slot.list;
}

function newSlot(table: TableNode, path: SourcePath, depth: number, profile: ShapeProfile): Slot {
  const dotted = pathText(path);
  const { id } = profile;
  const isIdPath = typeof id === 'string' && (dotted === id || dotted === fieldPathText(id));
  const isId = isIdPath && !path.includes(EACH);
  const { json, fixedType, rename } = findRule(path, profile);
  const isText = zoneNameAt(profile.times, dotted) === LOCAL;
  const ruled = { table, path, depth, isId, json, isText, fixedType, rename };
  return { ...ruled, column: null, cellIndex: -1, toCell: TO_CELL.json, level: null, list: null };
}

/** The slot at a path from the record's root, made with the levels on the way. */
function ensureSlotAt(tree: ShapeTree, path: SourcePath): Slot {
  let level = tree.root;
  let slot: Slot | null = null;
  for (const part of path) {
    if (slot !== null && part === EACH) {
      if (slot.list === null) throw new Error(`no table for ${pathText(path)}`);
      slot = slot.list.element;
      continue;
    }
    if (slot !== null) level = ensureLevel(slot);
    slot = ensureSlot(level, sourceKey(part), tree.profile);
  }
  if (slot === null) throw new Error('a column without a path');
  return slot;
}

/**
 * True if the value is worth storing: if it has content, or is or holds an object or array that always goes into one
 * JSON column. Such a column holds empty ones too, from the first on, so that the order of records makes no difference.
 */
export function isWorthStoring(path: SourcePath, value: JsonValue, profile: ShapeProfile): boolean {
  return hasContent(value) || containsJsonValue(path, value, profile);
}

function containsJsonValue(path: SourcePath, value: JsonValue, profile: ShapeProfile): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (isStoredAsJson(path, profile)) return true;
  return (
    isObject(value) &&
    Object.entries(value).some(([key, field]) => containsJsonValue([...path, pathPart(key)], field, profile))
  );
}

/** True if objects and arrays at the path always go into one JSON column. */
export function isStoredAsJson(path: SourcePath, profile: ShapeProfile): boolean {
  return path.length > profile.depth || (hasFieldRules(profile) && findRule(path, profile).json);
}

/** True if the table has as many columns as the profile lets it have. */
export function isFull(table: TableNode, profile: ShapeProfile): boolean {
  const columns = table.shape.columns.length - (table.overflowAt < 0 ? 0 : 1);
  return columns >= profile.max_columns;
}
