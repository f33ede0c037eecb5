// Turns the records of a page into rows of typed tables (`shapeRecords`). Example: `{"id": 7, "author": {"name": "Ann"},
// "tags": ["a", "b"]}` becomes a row `7, Ann` of the resource's table, with the column `author_name`, and two rows of the
// child table for `tags`. New fields get columns first (`evolve-shape.ts`).
import { keysOfPath } from '../model/body-path.ts';
import { SyncError } from '../model/errors.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import type { Cell, ResourceShape, ShapeChange, SourcePath, TableRows, TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType, Contract } from '../model/vocabulary.ts';
import { type CellNotes, repairJson } from './columns/cells.ts';
import { columnName, pathPart, pathText } from './columns/column-name.ts';
import { evolveShape, shapeChanges } from './evolve-shape.ts';
import { findRule } from './field-rules.ts';
import { jsonText } from './json/parse-json.ts';
import { hasContent, isObject, limitRejection, NOT_AN_OBJECT, type Rejection } from './records/as-record.ts';
import {
  isFull,
  isWorthStoring,
  type Level,
  type List,
  slotOfFixedType,
  type ShapeProfile,
  shapeTree,
  type ShapeTree,
  type Slot,
  type TableNode,
  acceptsFixedType,
} from './shape-tree.ts';

export interface ShapeInput {
  shape: ResourceShape;
  profile: ShapeProfile;
  records: readonly ShapeRecord[];
  /** Names that no child table may take: tables and views of other resources. */
  tableNames?: ReadonlySet<string>;
}

/** A record with its key. `bytes` are the source of `value`. */
export interface ShapeRecord {
  key: string;
  value: JsonValue;
  bytes: Buffer;
}

/** A page as rows, by table of `shape`; those of the resource's own table are in record order. */
export interface ShapedPage {
  /** The same object as the input's if nothing had to change. */
  shape: ResourceShape;
  changes: ShapeChange[];
  rows: TableRows[];
  rejects: ({ index: number } & Rejection)[];
  /** Values that went into an `_overflow` column. */
  overflowed: number;
  /** Values left out by the contract `discard_value`. */
  discarded: number;
  /** Cells in which NUL or half a surrogate pair was replaced. */
  repaired: number;
}

/**
 * Turns one page's records into rows, and grows the shape if they need it and the contract allows it: then the records
 * are written again, into the grown shape. A contract other than `evolve` applies after the first page that adds a column.
 *
 * Rejects records that are too deep or too wide, and under `discard_row` those that do not fit. Throws
 * `SyncError('contract_frozen')` under `freeze`; then nothing of the page is to be written.
 */
export function shapeRecords({ shape, profile, records, tableNames = new Set() }: ShapeInput): ShapedPage {
  const { resource } = shape;
  const isNew = shape.tables.every((table) => table.columns.length === 0);
  const contract: Contract = isNew ? 'evolve' : profile.contract;
  // No child table may take the name of a view.
  const views = [`${resource}_live`, `${resource}_history`, 'content_performance_daily', 'sync_freshness'];
  const names = new Set([...views, ...tableNames]);
  let current = shape;
  for (;;) {
    const writer = writeRecords(shapeTree(current, profile), contract, records);
    const { rejects, overflowed, discarded, repaired } = writer;
    if (!writer.needsGrowth) {
      const filled = writer.buffers.filter(({ cells }) => cells.length > 0);
      const rows = filled.map(({ node, width, cells }) => ({ table: node.shape, width, cells }));
      const changes = shape === current ? [] : shapeChanges(shape, current);
      return { shape: current, changes, rows, rejects, overflowed, discarded, repaired };
    }
    // A rejected record makes no table grow.
    const rejected = new Set(rejects.map(({ index }) => index));
    const usable = records.filter((_, index) => !rejected.has(index)).map(({ value }) => value);
    const grown = evolveShape(current, profile, usable.filter(isObject), names, writer.tooWideTables);
    const isSame = grown.tables.length === current.tables.length && shapeChanges(current, grown).length === 0;
    if (isSame) throw new Error(`the shape of ${resource} does not settle`);
    current = grown;
  }
}

/** Returns the shape of a resource before its first record: one table with only the key. */
export function initialShape(resource: string, profile: ShapeProfile): ResourceShape {
  const { id } = profile;
  const keys = typeof id === 'string' ? (keysOfPath(id) ?? [id]) : null;
  const key = keys === null ? '_id' : columnName(keys, new Set(), findRule(keys.map(pathPart), profile).rename);
  return { resource, tables: [{ name: resource, path: [], key: [key], columns: [] }] };
}

/** The state of writing one page: its rows so far, and the record that is being written. */
interface PageWriter extends CellNotes {
  tree: ShapeTree;
  contract: Contract;
  /** By table, in the order of the shape. */
  buffers: RowBuffer[];
  rejects: ShapedPage['rejects'];
  overflowed: number;
  discarded: number;
  /** True if no column holds some value, and the contract `evolve` lets the tables grow: then the rows are not complete. */
  needsGrowth: boolean;
  /** Names of tables in which a row was too wide and that have no `_overflow` column yet. */
  tooWideTables: Set<string>;
  /** Key of the current record. */
  key: string;
  /** Positions in the arrays around the current value, outermost first. */
  positions: number[];
  /** Set if the current record does not fit under the contract `discard_row`. */
  rejection: Rejection | null;
}

/** The rows of one table. */
interface RowBuffer {
  node: TableNode;
  /** Row by row. */
  cells: Cell[];
  /** Cells per row. */
  width: number;
  /** Index of the first cell of the current row. */
  base: number;
  /** Index of the first cell of the current record. */
  recordAt: number;
  /** Members of the current row's `_overflow` object, as JSON text. */
  overflow: string[];
}

/** Writes the records into rows of the tree's tables, in order; those beyond the limits are among the rejects. */
function writeRecords(tree: ShapeTree, contract: Contract, records: readonly ShapeRecord[]): PageWriter {
  const buffers = tree.tables.map((node): RowBuffer => {
    const width = node.shape.key.length + node.shape.columns.length;
    return { node, cells: [], width, base: 0, recordAt: 0, overflow: [] };
  });
  const counts = { overflowed: 0, discarded: 0, repaired: 0, needsGrowth: false };
  const state = { key: '', positions: [], rejection: null };
  const writer: PageWriter = { tree, contract, buffers, ...state, ...counts, rejects: [], tooWideTables: new Set() };
  for (const [index, record] of records.entries()) {
    // Only a record within the limits is safe to recurse into.
    const rejection = limitRejection(record.value, record.bytes.length) ?? writeRecord(writer, record);
    if (rejection !== null) writer.rejects.push({ index, ...rejection });
  }
  return writer;
}

function writeRecord(writer: PageWriter, { key, value }: ShapeRecord): Rejection | null {
  if (!isObject(value)) return NOT_AN_OBJECT;
  for (const buffer of writer.buffers) buffer.recordAt = buffer.cells.length;
  const { needsGrowth } = writer;
  writer.key = key;
  writer.rejection = null;
  const buffer = bufferOf(writer, writer.tree.root.table);
  beginRow(buffer, key, writer.positions);
  writeLevel(writer, buffer, writer.tree.root, value, false);
  endRow(writer, buffer);
  if (writer.rejection === null) return null;
  for (const { cells, recordAt } of writer.buffers) cells.length = recordAt;
  // No table grows for a rejected record.
  writer.needsGrowth = needsGrowth;
  return writer.rejection;
}

function bufferOf({ buffers }: PageWriter, { index }: TableNode): RowBuffer {
  const buffer = buffers[index];
  if (buffer === undefined) throw new Error('a table without its rows');
  return buffer;
}

/** Begins a row: its key, its positions in arrays, and nulls. */
function beginRow(buffer: RowBuffer, key: string, positions: readonly number[]): void {
  const { cells, width } = buffer;
  buffer.base = cells.length;
  cells.push(key, ...positions);
  while (cells.length < buffer.base + width) cells.push(null);
}

function endRow(writer: PageWriter, buffer: RowBuffer): void {
  const { node, cells, base, overflow } = buffer;
  for (const index of columnsExceedingPage(node.shape, cells, base)) moveToOverflow(writer, buffer, index);
  if (overflow.length === 0) return;
  cells[base + node.overflowAt] = `{${overflow.join(',')}}`;
  overflow.length = 0;
}

/** Moves a value that has a column into the overflow of a row that is too wide for a database. */
function moveToOverflow(writer: PageWriter, buffer: RowBuffer, index: number): void {
  const { node, cells, base } = buffer;
  const column = node.shape.columns[index];
  const at = node.shape.key.length + index;
  if (column === undefined || at === node.overflowAt) return;
  const cell = cells[base + at] ?? null;
  cells[base + at] = null;
  if (node.overflowAt < 0) {
    writer.tooWideTables.add(node.shape.name);
    noteMissingColumn(writer, column.path);
  } else {
    addToOverflow(writer, buffer, column.path, column.type === 'text' ? JSON.stringify(cell) : String(cell));
  }
}

/**
 * `onlyExisting` is true inside a value that a JSON column stores whole, because its field was an object or array in one
 * record and a scalar in another: existing columns are still filled, but none are added.
 */
function writeLevel(
  writer: PageWriter,
  buffer: RowBuffer,
  level: Level,
  object: JsonObject,
  onlyExisting: boolean,
): void {
  const { profile } = writer.tree;
  for (const key in object) {
    const value = object[key];
    if (value === null || value === undefined) continue;
    const existing = level.slots.get(key) ?? (onlyExisting ? undefined : slotOfFixedType(level, key, profile));
    if (existing !== undefined) writeSlot(writer, buffer, existing, value, onlyExisting);
    else if (!onlyExisting && isWorthStoring([...level.path, pathPart(key)], value, profile))
      writeWithoutColumn(writer, buffer, [...level.path, pathPart(key)], value);
  }
}

function writeSlot(writer: PageWriter, buffer: RowBuffer, slot: Slot, value: JsonValue, onlyExisting: boolean): void {
  if (slot.fixedType !== null && !slot.isId && !acceptsFixedType(slot, value, writer.tree)) {
    if (hasContent(value)) refuseValueOfOtherType(writer, slot);
    return;
  }
  const inColumn = slot.cellIndex >= 0;
  if (inColumn) {
    const cell = slot.toCell(value, writer);
    // A value without content is null in every column but one of JSON.
    if (cell !== undefined) buffer.cells[buffer.base + slot.cellIndex] = cell;
    else if (hasContent(value)) noteMissingColumn(writer, slot.path);
    if (slot.level === null && slot.list === null) return;
  } else if (slot.isId) return;
  const inside = typeof value === 'object' && writeInside(writer, buffer, slot, value, onlyExisting || inColumn);
  if (inColumn || onlyExisting || (inside && !slot.json)) return;
  if (isWorthStoring(slot.path, value, writer.tree.profile)) writeWithoutColumn(writer, buffer, slot.path, value);
}

/** Writes the parts of an object or array that have their own columns or rows; false if it has none. */
function writeInside(
  writer: PageWriter,
  buffer: RowBuffer,
  slot: Slot,
  value: JsonValue,
  onlyExisting: boolean,
): boolean {
  if (Array.isArray(value)) {
    if (slot.list !== null) writeList(writer, slot.list, value, onlyExisting);
    return slot.list !== null;
  }
  if (slot.level === null || !isObject(value)) return false;
  writeLevel(writer, buffer, slot.level, value, onlyExisting);
  return true;
}

function writeList(writer: PageWriter, list: List, elements: readonly JsonValue[], onlyExisting: boolean): void {
  const depth = writer.positions.push(0);
  const buffer = bufferOf(writer, list.table);
  for (let position = 0; position < elements.length; position += 1) {
    const element = elements[position] ?? null;
    writer.positions[depth - 1] = position;
    beginRow(buffer, writer.key, writer.positions);
    if (element !== null) writeSlot(writer, buffer, list.element, element, onlyExisting);
    endRow(writer, buffer);
  }
  writer.positions.pop();
}

/** A value without a column goes into the overflow of a full table; otherwise the tables must grow. */
function writeWithoutColumn(writer: PageWriter, buffer: RowBuffer, path: SourcePath, value: JsonValue): void {
  const { node } = buffer;
  if (node.overflowAt < 0 || !isFull(node, writer.tree.profile)) noteMissingColumn(writer, path);
  else addToOverflow(writer, buffer, path, repairJson(jsonText(value), writer));
}

function addToOverflow(writer: PageWriter, { node, overflow }: RowBuffer, path: SourcePath, json: string): void {
  const name = repairJson(JSON.stringify(pathText(path.slice(node.shape.path.length))), writer);
  overflow.push(`${name}:${json}`);
  writer.overflowed++;
}

const FROZEN_HINT =
  'The resource is frozen by its contract. Set "contract: evolve" in the profile to let its tables grow.';
const FIXED_TYPE_HINT = 'Correct the value at the service, or the type of the field in the profile.';

/** No column can hold the value: the tables must grow, or the contract decides about the record. */
function noteMissingColumn(writer: PageWriter, path: SourcePath): void {
  if (writer.contract === 'evolve') writer.needsGrowth = true;
  else refuse(writer, writer.contract, `${shownPath(path)} does not fit the tables as they are`, FROZEN_HINT);
}

/** The value is not of the type that the profile fixes for its field: no table grows for it. */
function refuseValueOfOtherType(writer: PageWriter, { path, fixedType }: Slot): void {
  const { contract } = writer.tree.profile;
  const why =
    contract === 'evolve' && fixedType?.fixedBy !== undefined
      ? `does not fit its column, whose type cannot change while ${fixedType.fixedBy} depends on it; drop that, or make it on the views of the copy, then sync again`
      : 'is not of the type that the profile gives it';
  refuse(writer, contract, `${shownPath(path)} ${why}`, FIXED_TYPE_HINT);
}

/** Rejects the record, leaves out the value, or fails the resource, as the contract says. */
function refuse(writer: PageWriter, contract: Contract, detail: string, hint: string): void {
  if (contract === 'freeze') {
    throw new SyncError('contract_frozen', `record ${writer.key}: ${detail}`, { recovery: 'stop', hint });
  }
  if (contract === 'discard_value') writer.discarded++;
  else writer.rejection ??= { reason: 'contract', detail };
}

/** A path for a message or a database: a key may contain anything, even a NUL. */
function shownPath(path: SourcePath): string {
  return visibleText(pathText(path).toWellFormed());
}

/**
 * Bytes of a Postgres page that remain after a row's header, its key, managed columns and `_overflow`. A row must fit into
 * a page, except for its long values.
 */
const MAX_ROW_BYTES = 7_800;
/** Longer values are moved out of the row; a pointer stays. */
const MAX_INLINE_BYTES = 24;
const POINTER_BYTES = 18;
/** Bytes by type; all others are as long as their values. */
const FIXED_BYTES: Partial<Record<ColumnType, number>> = { boolean: 1, date: 4, integer: 8, double: 8, timestamp: 8 };
/** Values of eight bytes begin at a multiple of eight. */
const MAX_PADDING_BYTES = 7;
/** This many columns always fit. */
const MAX_SAFE_COLUMNS = Math.floor(MAX_ROW_BYTES / MAX_INLINE_BYTES);
const NONE: readonly number[] = [];

/**
 * The columns, by their place among the table's, whose values Postgres could not hold in the row whose first cell
 * is at `at`, whatever the order of the columns in the database: the last long ones, until the others fit.
 */
function columnsExceedingPage(table: TableShape, cells: readonly Cell[], at: number): readonly number[] {
  if (table.columns.length <= MAX_SAFE_COLUMNS) return NONE;
  const first = at + table.key.length;
  const sizes = table.columns.map(({ type }, index) => storedBytes(type, cells[first + index] ?? null));
  const aligned = table.columns.filter(({ type }, index) => FIXED_BYTES[type] === 8 && sizes[index] !== 0).length;
  let others = sizes.filter((size) => size > 0).length - aligned;
  let bytes = sizes.reduce((sum, size) => sum + size, 0);
  const beyond: number[] = [];
  for (let index = sizes.length - 1; index >= 0; index -= 1) {
    if (bytes + MAX_PADDING_BYTES * Math.min(aligned, others) <= MAX_ROW_BYTES) break;
    const { type } = table.columns[index] ?? { type: 'boolean' };
    if (sizes[index] === 0 || type in FIXED_BYTES) continue;
    beyond.push(index);
    bytes -= sizes[index] ?? 0;
    others -= 1;
  }
  return beyond;
}

/** One byte holds the length. Numbers and JSON are stored otherwise than they are written, and count as long. */
function storedBytes(type: ColumnType, cell: Cell): number {
  if (cell === null) return 0;
  const fixed = FIXED_BYTES[type];
  if (fixed !== undefined) return fixed;
  if (type !== 'text' || typeof cell !== 'string') return MAX_INLINE_BYTES;
  const size = cell.length < MAX_INLINE_BYTES ? Buffer.byteLength(cell) + 1 : Infinity;
  return size <= MAX_INLINE_BYTES ? size : POINTER_BYTES;
}
