import { fieldPathText, keysOfPath } from '../model/body-path.ts';
import type { JsonValue } from '../model/json.ts';
import type { Column, ResourceShape, ShapeChange, SourcePath, TableShape } from '../model/table.ts';
import { LOCAL, zoneAt, zoneNameAt, type ZonesByPath } from '../model/time-zone.ts';
import type { Contract } from '../model/vocabulary.ts';
import { cellConverter, type CellNotes, TO_CELL, type ToCell } from './columns/cells.ts';
import { columnName, columnPathOf, EACH, OVERFLOW, pathPart, pathText, sourceKey } from './columns/column-name.ts';
import { evolveShape, shapeChanges } from './evolve-shape.ts';
import { type FieldRule, findRule, holdsRules, type Pin } from './field-rules.ts';
import { hasContent, isObject } from './records/as-record.ts';
import { type ShapeRecord, writeRows, type WrittenRows } from './write-rows.ts';

// Turns the records of a page into rows of typed tables.

export interface ShapeInput {
  shape: ResourceShape;
  profile: ShapeProfile;
  records: readonly ShapeRecord[];
  /** Names that no child table may take: tables and views of other resources. */
  tableNames?: ReadonlySet<string>;
}

/** A page as rows, by table of `shape`; those of the resource's own table are in record order. */
export interface ShapedPage extends Omit<WrittenRows, 'needsGrowth' | 'tooWideTables'> {
  /** The same object as the input's if nothing had to change. */
  shape: ResourceShape;
  changes: ShapeChange[];
}

/** Returns the shape of a resource before its first record: one table with only the key. */
export function initialShape(resource: string, profile: ShapeProfile): ResourceShape {
  const { id } = profile;
  const keys = typeof id === 'string' ? (keysOfPath(id) ?? [id]) : null;
  const key = keys === null ? '_id' : columnName(keys, new Set(), findRule(keys.map(pathPart), profile).rename);
  return { resource, tables: [{ name: resource, path: [], key: [key], columns: [] }] };
}

/**
 * Turns one page's records into rows, and grows the shape if they need it and the contract allows it. A contract
 * other than `evolve` applies after the first page that adds a column.
 *
 * Rejects records that are too deep or too wide, and under `discard_row` those that do not fit. Throws
 * `SyncError('contract_frozen')` under `freeze`; then nothing of the page is to be written.
 */
export function shapeRecords({ shape, profile, records, tableNames = new Set() }: ShapeInput): ShapedPage {
  const { resource } = shape;
  const isNew = shape.tables.every((table) => table.columns.length === 0);
  const contract: Contract = isNew ? 'evolve' : profile.contract;
  // No child table may take the name of a view.
  const taken = [`${resource}_live`, `${resource}_history`, 'content_performance_daily', 'sync_freshness'];
  const names = new Set([...taken, ...tableNames]);
  let current = shape;
  for (;;) {
    const { needsGrowth, tooWideTables, ...written } = writeRows(shapeTree(current, profile), contract, records);
    if (!needsGrowth) {
      const rows = written.rows.filter(({ cells }) => cells.length > 0);
      const changes = shape === current ? [] : shapeChanges(shape, current);
      return { ...written, rows, shape: current, changes };
    }
    // A rejected record makes no table grow.
    const rejected = new Set(written.rejects.map(({ index }) => index));
    const usable = records.filter((_, index) => !rejected.has(index)).map(({ value }) => value);
    const grown = evolveShape(current, profile, usable.filter(isObject), names, tooWideTables);
    const isSame = grown.tables.length === current.tables.length && shapeChanges(current, grown).length === 0;
    if (isSame) throw new Error(`the shape of ${resource} does not settle`);
    current = grown;
  }
}

// The columns and tables of a resource as a tree that follows the nesting of a record.

/** Child tables of one resource; arrays beyond them become JSON columns. */
const MAX_CHILD_TABLES = 64;
/** For conversions that are only tried. */
export const IGNORED_NOTES: CellNotes = { suspect: false, repaired: 0 };

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

/** A table in the tree; `index` is its position in `ResourceShape.tables`. */
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

/** One field, or the elements of a list, and where its value is stored: a column, columns of its fields, a table. */
export interface Slot {
  table: TableNode;
  path: SourcePath;
  depth: number;
  /** The record's id, which is the key and no column. */
  skip: boolean;
  /** The profile wants it as one JSON column. */
  json: boolean;
  /** Its texts are never read as times. */
  isText: boolean;
  /** The type that the profile gives its column; null if the values decide. */
  pin: Pin | null;
  /** The name that the profile gives its column or table. */
  rename: string | null;
  column: Column | null;
  /** Index in the row; -1 without a column. */
  at: number;
  /** Turns a value into the column's cell; valid as long as the column keeps its type. */
  toCell: ToCell;
  level: Level | null;
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
  const [own, ...children] = shape.tables.map(newTable);
  if (own === undefined) throw new Error(`the shape of ${shape.resource} has no table`);
  const tree = { root: newLevel(own, [], 0), tables: [own, ...children], profile };
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

/** Returns the slot for `key` in `level`; creates it if it is missing. */
export function openSlot(level: Level, key: string, profile: ShapeProfile): Slot {
  const found = level.slots.get(key);
  if (found !== undefined) return found;
  const slot = newSlot(level.table, [...level.path, pathPart(key)], level.depth, profile);
  level.slots.set(key, slot);
  return slot;
}

/** Returns the slot of a field whose type the profile fixes, or creates it; undefined for any other field. */
export function pinnedSlot(level: Level, key: string, profile: ShapeProfile): Slot | undefined {
  if (!holdsRules(profile) || findRule([...level.path, pathPart(key)], profile).pin === null) return undefined;
  return openSlot(level, key, profile);
}

/**
 * True if a slot with a fixed type accepts the value: one that its column holds exactly, or a list. The first value
 * decides whether the field is a scalar or a list.
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

/** Returns the level for the fields of the object in `slot`; creates it if it is missing. */
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
  const skip = isIdPath(dotted, profile.id) && !path.includes(EACH);
  const { json, pin, rename } = findRule(path, profile);
  const isText = zoneNameAt(profile.times, dotted) === LOCAL;
  const ruled = { table, path, depth, skip, json, isText, pin, rename };
  return { ...ruled, column: null, at: -1, toCell: TO_CELL.json, level: null, list: null };
}

function isIdPath(dotted: string, id: ShapeProfile['id']): boolean {
  return typeof id === 'string' && (dotted === id || dotted === fieldPathText(id));
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
export function isWorthStoring(slot: Slot, value: JsonValue, profile: ShapeProfile): boolean {
  return hasContent(value) || holdsWhole(slot.path, value, profile);
}

/** The same for a field that has no slot yet. */
export function isFieldWorthStoring(level: Level, key: string, value: JsonValue, profile: ShapeProfile): boolean {
  return hasContent(value) || holdsWhole([...level.path, pathPart(key)], value, profile);
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
  return path.length > profile.depth || (holdsRules(profile) && findRule(path, profile).json);
}

/** True if the table has as many columns as the profile lets it have. */
export function isFull(table: TableNode, profile: ShapeProfile): boolean {
  const columns = table.shape.columns.length - (table.overflowAt < 0 ? 0 : 1);
  return columns >= profile.max_columns;
}
