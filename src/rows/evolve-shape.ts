// Adds columns and tables for new fields of records, and widens the types of columns for new values (`evolveShape`). It
// follows a record through the same tree as `shape-page.ts`, which writes the rows once every value has a column.
import type { JsonObject, JsonValue } from '../model/json.ts';
import type { Column, ResourceShape, ShapeChange, SourcePath, TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { TO_CELL, narrowestType, widenFor } from './columns/cells.ts';
import { columnName, EACH, keysOf, OVERFLOW, pathPart, tableName } from './columns/column-name.ts';
import { findRule, siblingNames } from './field-rules.ts';
import { hasContent, isObject } from './records/as-record.ts';
import {
  hasRoomForTable,
  IGNORED_NOTES,
  isElement,
  isFull,
  isStoredAsJson,
  isWorthStoring,
  type Level,
  type List,
  newTable,
  ensureLevel,
  ensureList,
  ensureSlot,
  slotOfFixedType,
  type ShapeProfile,
  shapeTree,
  type ShapeTree,
  type Slot,
  type TableNode,
  acceptsFixedType,
} from './shape-tree.ts';

/** The shape that grows, as a tree with mutable tables, and the names that other tables and views have. */
interface Draft {
  tree: ShapeTree;
  tableNames: ReadonlySet<string>;
}

/**
 * Returns the shape with a column for each new field of `values`, and with types that are wide enough. It never narrows,
 * renames or removes. A column appears with its first value that is not null, a table with the first element of a list.
 *
 * A field that was an object or array in one record and a scalar in another gets a JSON column for whole values; its
 * existing columns and tables are still filled. `tableNames` are names in use elsewhere, `tooWideTables` the tables that
 * need an `_overflow` column.
 */
export function evolveShape(
  shape: ResourceShape,
  profile: ShapeProfile,
  values: readonly JsonObject[],
  tableNames: ReadonlySet<string>,
  tooWideTables: ReadonlySet<string> = new Set(),
): ResourceShape {
  const draft: Draft = { tree: shapeTree(structuredClone(shape), profile), tableNames };
  const { root, tables } = draft.tree;
  for (const value of values) growLevel(draft, root, value, false);
  for (const table of tables) if (tooWideTables.has(table.shape.name)) ensureOverflowColumn(table);
  return withReferencesAsText({ ...shape, tables: tables.map((table) => table.shape) }, profile);
}

/**
 * The shape with references as texts, because keys are: a database joins no text with a number. A type that the profile
 * gives stays. Returns the same object if nothing changes.
 */
export function withReferencesAsText(shape: ResourceShape, profile: ShapeProfile): ResourceShape {
  const { references = [] } = profile;
  return changeTypes(shape, ({ path, name, type }, table) => {
    const isReference = references.includes(`${table.name}.${name}`) && findRule(path, profile).fixedType === null;
    return isReference && type !== 'json' ? 'text' : type;
  });
}

/** The shape with other types of columns; the same object if no type differs. */
export function changeTypes(
  shape: ResourceShape,
  typeFor: (column: Column, table: TableShape) => ColumnType,
): ResourceShape {
  const tables = shape.tables.map((table) => {
    const columns = table.columns.map((column) => ({ ...column, type: typeFor(column, table) }));
    return { ...table, columns };
  });
  const changed = { ...shape, tables };
  return shapeChanges(shape, changed).length === 0 ? shape : changed;
}

/** Columns that are new in `after`, or wider than in `before`. */
export function shapeChanges(before: ResourceShape, after: ResourceShape): ShapeChange[] {
  return after.tables.flatMap(({ name: table, columns }) => {
    const oldColumns = before.tables.find((candidate) => candidate.name === table)?.columns ?? [];
    const types = new Map(oldColumns.map((column) => [column.name, column.type]));
    return columns
      .filter((column) => types.get(column.name) !== column.type)
      .map((column) => ({ table, column, from: types.get(column.name) ?? null }));
  });
}

/**
 * `onlyExisting` is true inside a value that a JSON column stores whole (`writeLevel` in `shape-page.ts`): the types of
 * existing columns may widen, but no column or table is added.
 */
function growLevel(draft: Draft, level: Level, object: JsonObject, onlyExisting: boolean): void {
  for (const key of Object.keys(object)) {
    const value = object[key];
    if (value === undefined || value === null) continue;
    const existing =
      level.slots.get(key) ?? (onlyExisting ? undefined : slotOfFixedType(level, key, draft.tree.profile));
    if (existing !== undefined) growSlot(draft, existing, value, onlyExisting);
    else if (onlyExisting || !isWorthStoring([...level.path, pathPart(key)], value, draft.tree.profile)) continue;
    else if (isFull(level.table, draft.tree.profile)) ensureOverflowColumn(level.table);
    else growSlot(draft, ensureSlot(level, key, draft.tree.profile), value, false);
  }
}

function growSlot(draft: Draft, slot: Slot, value: JsonValue, onlyExisting: boolean): void {
  if (slot.isId || (slot.fixedType !== null && !acceptsFixedType(slot, value, draft.tree))) return;
  if (slot.column !== null) widenColumn(slot, slot.column, value);
  else if (
    !onlyExisting &&
    isWorthStoring(slot.path, value, draft.tree.profile) &&
    !goesIntoParts(draft, slot, value)
  ) {
    addColumn(draft, slot, value);
  }
  growInside(draft, slot, value, onlyExisting || slot.column !== null);
}

/** A value without content, such as `{}`, fits every column: it is stored as null, or as it is in a JSON column. */
function widenColumn({ fixedType }: Slot, column: Column, value: JsonValue): void {
  if (fixedType !== null || TO_CELL[column.type](value, IGNORED_NOTES) !== undefined || !hasContent(value)) return;
  column.type = widenFor(column.type, value);
}

/** True if the value needs no column of its own, because its fields or elements have or get theirs. */
function goesIntoParts(draft: Draft, slot: Slot, value: JsonValue): boolean {
  const { profile } = draft.tree;
  if (slot.json || slot.depth >= profile.depth) return false;
  if (isObject(value)) return slot.level !== null || slot.list === null;
  if (!Array.isArray(value)) return false;
  if (slot.list !== null) return true;
  return slot.level === null && !isElement(slot) && hasRoomForTable(draft.tree);
}

function addColumn(draft: Draft, slot: Slot, value: JsonValue): void {
  if (isFull(slot.table, draft.tree.profile)) return ensureOverflowColumn(slot.table);
  const { columns, key, path } = slot.table.shape;
  const keys = isElement(slot) ? ['value'] : keysOf(slot.path.slice(path.length));
  const inUse = [...key, ...columns.map(({ name }) => name)];
  const taken = new Set([...inUse, ...reservedNames(draft, slot)]);
  const name = columnName(keys, taken, slot.rename, path.length === 0 ? [] : key);
  // A field that also has columns or rows for its parts gets its whole value as JSON.
  const isJson = slot.json || slot.level !== null || slot.list !== null;
  slot.column = { name, path: slot.path, type: isJson ? 'json' : plainType(slot, value) };
  columns.push(slot.column);
}

/** Names that the profile gives to siblings of the field; the field itself has none by the profile. */
function reservedNames({ tree }: Draft, { path, rename }: Slot): readonly string[] {
  return rename === null ? siblingNames(keysOf(path), tree.profile) : [];
}

/** A local time without a known zone stays the text that was sent. */
function plainType({ isText, fixedType }: Slot, value: JsonValue): ColumnType {
  if (fixedType !== null) return fixedType.type;
  return isText && typeof value === 'string' ? 'text' : (narrowestType(value) ?? 'json');
}

/** Adds the overflow column, once. No name made of source keys begins with `_`. */
function ensureOverflowColumn(table: TableNode): void {
  if (table.overflowAt >= 0) return;
  const { path, key, columns } = table.shape;
  table.overflowAt = key.length + columns.push({ name: '_overflow', path: [...path, OVERFLOW], type: 'json' }) - 1;
}

function growInside(draft: Draft, slot: Slot, value: JsonValue, onlyExisting: boolean): void {
  // An empty value creates nothing: otherwise a later value of the same page would be written differently.
  const addsParts =
    !onlyExisting && isWorthStoring(slot.path, value, draft.tree.profile) && goesIntoParts(draft, slot, value);
  if (isObject(value)) {
    const level = addsParts ? ensureLevel(slot) : slot.level;
    if (level !== null) growLevel(draft, level, value, onlyExisting);
  } else if (Array.isArray(value)) {
    const list = addsParts ? ensureChildTable(draft, slot) : slot.list;
    if (list === null) return;
    for (const element of value) if (element !== null) growSlot(draft, list.element, element, onlyExisting);
  }
}

/** Creates the child table for the array in `slot`. */
function ensureChildTable(draft: Draft, slot: Slot): List {
  if (slot.list !== null) return slot.list;
  const { tree, tableNames } = draft;
  const parent = slot.table.shape;
  const taken = new Set([...tableNames, ...tree.tables.map(({ shape }) => shape.name), ...reservedNames(draft, slot)]);
  const name = tableName(parent.name, keysOf(slot.path.slice(parent.path.length)), taken, slot.rename);
  const isOfRecord = parent.key.length === 1 && parent.path.length === 0;
  const above = isOfRecord ? [`${parent.name}_id`] : parent.key;
  const position = above.length === 1 ? 'position' : `position_${above.length}`;
  const path = [...slot.path, EACH];
  const table = newTable({ name, path, key: [...above, position], columns: [] }, tree.tables.length);
  tree.tables.push(table);
  return ensureList(slot, table, tree);
}

/**
 * Widenings that change stored values, besides those to JSON: a timestamp is stored as UTC and not as the source wrote
 * it, a double may have come with more digits than it is written with, and Postgres's numeric keeps the number but not
 * its spelling `1e400`. All others leave the values as the wider type would have stored them.
 */
const INEXACT: Partial<Record<ColumnType, readonly ColumnType[]>> = {
  timestamp: ['text'],
  double: ['numeric', 'text'],
  numeric: ['text'],
};

/**
 * True if stored rows differ from what the changed shape would have written. Besides widenings: a column for a field
 * that may be in `_overflow`, and a JSON column for a field whose objects or arrays have gone into columns or tables
 * until now, or were empty and stored as null.
 */
export function changesStoredRows(before: ResourceShape, change: ShapeChange, profile: ShapeProfile): boolean {
  const { column, from } = change;
  if (from !== null) return column.type === 'json' || (INEXACT[from]?.includes(column.type) ?? false);
  const table = before.tables.find(({ name }) => name === change.table);
  if (table === undefined) return false;
  if (table.columns.some(({ path }) => path.at(-1) === OVERFLOW)) return true;
  if (column.type !== 'json') return false;
  return !isStoredAsJson(column.path, profile) || [...table.columns, ...before.tables].some(isWithin(column.path));
}

function isWithin(path: SourcePath): (other: { path: SourcePath }) => boolean {
  return (other) => other.path.length > path.length && path.every((part, at) => other.path[at] === part);
}
