import { SyncError } from '../model/errors.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import type { Cell, SourcePath, TableRows, TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType, Contract } from '../model/vocabulary.ts';
import { type CellNotes, repairJson } from './columns/cells.ts';
import { pathPart, pathText } from './columns/column-name.ts';
import { BACKSLASH, jsonText } from './json/parse-json.ts';
import { hasContent, isObject } from './records/as-record.ts';
import { limitRejection, NOT_AN_OBJECT, type Rejection } from './records/record-limits.ts';
import {
  isFieldWorthStoring,
  isFull,
  isWorthStoring,
  type Level,
  type List,
  pinnedSlot,
  type ShapeTree,
  type Slot,
  type TableNode,
  takesPinned,
} from './shape-tree.ts';

/** A record that has its key. `bytes` are the source of `value`: what they do not hold is not looked for. */
export interface ShapeRecord {
  key: string;
  value: JsonValue;
  bytes: Buffer;
}

/** The rows of one page. */
export interface WrittenRows {
  rows: TableRows[];
  rejects: ({ index: number } & Rejection)[];
  /** Values that went into an `_overflow` column. */
  overflowed: number;
  /** Values left out by the contract `discard_value`. */
  discarded: number;
  /** Cells in which NUL or half a surrogate pair was replaced. */
  repaired: number;
  /** True if a value found no column that holds it under the contract `evolve`: then the rows are not complete. */
  misfit: boolean;
  /** Names of tables in which a row was too wide and that have no `_overflow` column yet. */
  spills: Set<string>;
}

/** The state of writing one page. */
interface Run extends CellNotes, Omit<WrittenRows, 'rows'> {
  tree: ShapeTree;
  contract: Contract;
  /** By table, in the order of the shape. */
  sheets: TableSheet[];
  key: string;
  /** Positions in the arrays that the walk is in, outermost first. */
  positions: number[];
  /** Set if the current record does not fit under the contract `discard_row`. */
  rejection: Rejection | null;
}

/**
 * Writes the records into rows of the tree's tables, in order; those beyond the limits are among the rejects. Throws
 * `SyncError('contract_frozen')`.
 */
export function writeRows(tree: ShapeTree, contract: Contract, records: readonly ShapeRecord[]): WrittenRows {
  const run: Run = {
    tree,
    contract,
    sheets: tree.tables.map((node) => openSheet(node)),
    key: '',
    positions: [],
    rejection: null,
    suspect: false,
    rejects: [],
    overflowed: 0,
    discarded: 0,
    repaired: 0,
    misfit: false,
    spills: new Set(),
  };
  let index = 0;
  for (const record of records) {
    // Only a record within the limits is safe to walk.
    const rejection = limitRejection(record.value, record.bytes.length) ?? writeRecord(run, record);
    if (rejection !== null) run.rejects.push({ index, ...rejection });
    index += 1;
  }
  const { rejects, overflowed, discarded, repaired, misfit, spills } = run;
  const rows = run.sheets.map((sheet) => closeSheet(sheet));
  return { rows, rejects, overflowed, discarded, repaired, misfit, spills };
}

function writeRecord(run: Run, { key, value, bytes }: ShapeRecord): Rejection | null {
  if (!isObject(value)) return NOT_AN_OBJECT;
  for (const each of run.sheets) each.recordAt = each.end;
  const { misfit } = run;
  run.key = key;
  // Finding a byte is much faster than finding a text.
  run.suspect = bytes.includes(BACKSLASH) && bytes.includes('\\u');
  run.rejection = null;
  const sheet = sheetOf(run, run.tree.root.table);
  beginRow(sheet, key, run.positions);
  writeLevel(run, sheet, run.tree.root, value, false);
  endRow(run, sheet);
  if (run.rejection === null) return null;
  for (const each of run.sheets) takeBack(each);
  // No table grows for a rejected record.
  run.misfit = misfit;
  return run.rejection;
}

function sheetOf({ sheets }: Run, { index }: TableNode): TableSheet {
  const sheet = sheets[index];
  if (sheet === undefined) throw new Error('a table without its sheet');
  return sheet;
}

function endRow(run: Run, sheet: TableSheet): void {
  const { node, cells, base, overflow } = sheet;
  for (const index of columnsBeyondPage(node.shape, cells, base)) spill(run, sheet, index);
  if (overflow.length === 0) return;
  cells[base + node.overflowAt] = `{${overflow.join(',')}}`;
  overflow.length = 0;
}

/** Moves a value that has a column into the overflow of a row that is too wide for a database. */
function spill(run: Run, sheet: TableSheet, index: number): void {
  const { node, cells, base } = sheet;
  const column = node.shape.columns[index];
  const at = node.shape.key.length + index;
  if (column === undefined || at === node.overflowAt) return;
  const cell = cells[base + at] ?? null;
  cells[base + at] = null;
  if (node.overflowAt < 0) {
    run.spills.add(node.shape.name);
    noteMisfit(run, column.path);
  } else {
    addToOverflow(run, sheet, column.path, column.type === 'text' ? JSON.stringify(cell) : String(cell));
  }
}

/**
 * `closed` is true inside a value that is also stored whole in a JSON column, because its field was an object or array
 * in one record and a scalar in another: existing columns are still filled, but no new ones are made.
 */
function writeLevel(run: Run, sheet: TableSheet, level: Level, object: JsonObject, closed: boolean): void {
  for (const key in object) {
    const value = object[key];
    if (value === null || value === undefined) continue;
    const known = level.slots.get(key) ?? (closed ? undefined : pinnedSlot(level, key, run.tree.profile));
    if (known !== undefined) writeSlot(run, sheet, known, value, closed);
    else if (!closed && isFieldWorthStoring(level, key, value, run.tree.profile))
      writeUnplaced(run, sheet, [...level.path, pathPart(key)], value);
  }
}

function writeSlot(run: Run, sheet: TableSheet, slot: Slot, value: JsonValue, closed: boolean): void {
  if (slot.pin !== null && !slot.skip && !takesPinned(slot, value, run.tree)) {
    if (hasContent(value)) notePinMisfit(run, slot);
    return;
  }
  if (slot.at >= 0) {
    const cell = slot.toCell(value, run);
    // A value without content is null in every column but one of JSON.
    if (cell !== undefined) sheet.cells[sheet.base + slot.at] = cell;
    else if (hasContent(value)) noteMisfit(run, slot.path);
    if (slot.level === null && slot.list === null) return;
  } else if (slot.skip) {
    return;
  }
  const inColumn = slot.at >= 0;
  const inside = typeof value === 'object' && writeInside(run, sheet, slot, value, closed || inColumn);
  if (inColumn || closed || (inside && !slot.json)) return;
  if (isWorthStoring(slot, value, run.tree.profile)) writeUnplaced(run, sheet, slot.path, value);
}

/** Writes what has its own columns or rows in the object or array; false if it has none there. */
function writeInside(run: Run, sheet: TableSheet, slot: Slot, value: JsonValue, closed: boolean): boolean {
  if (Array.isArray(value)) {
    if (slot.list !== null) writeList(run, slot.list, value, closed);
    return slot.list !== null;
  }
  if (slot.level === null || !isObject(value)) return false;
  writeLevel(run, sheet, slot.level, value, closed);
  return true;
}

function writeList(run: Run, list: List, elements: readonly JsonValue[], closed: boolean): void {
  const depth = run.positions.push(0);
  const sheet = sheetOf(run, list.table);
  let position = 0;
  for (const element of elements) {
    run.positions[depth - 1] = position;
    beginRow(sheet, run.key, run.positions);
    if (element !== null) writeSlot(run, sheet, list.element, element, closed);
    endRow(run, sheet);
    position += 1;
  }
  run.positions.pop();
}

/** A value for which there is no column: into the overflow of a full table, else a misfit. */
function writeUnplaced(run: Run, sheet: TableSheet, path: SourcePath, value: JsonValue): void {
  const { node } = sheet;
  if (node.overflowAt < 0 || !isFull(node, run.tree.profile)) noteMisfit(run, path);
  else addToOverflow(run, sheet, path, repairJson(jsonText(value), run));
}

function addToOverflow(run: Run, { node, overflow }: TableSheet, path: SourcePath, json: string): void {
  const name = repairJson(JSON.stringify(pathText(path.slice(node.shape.path.length))), run);
  overflow.push(`${name}:${json}`);
  run.overflowed++;
}

/** The reaction to a value for which there is no column that holds it, as the tables are. */
function noteMisfit(run: Run, path: SourcePath): void {
  if (run.contract === 'evolve') run.misfit = true;
  else refuse(run, run.contract, `${shownPath(path)} does not fit the tables as they are`, FROZEN_HINT);
}

/** Handles a value that is not of the type that the profile gives its field: no table grows for it. */
function notePinMisfit(run: Run, { path, pin }: Slot): void {
  const { contract } = run.tree.profile;
  const shown = shownPath(path);
  const isFixed = contract === 'evolve' && pin?.fixedBy !== undefined;
  const what = isFixed
    ? `${shown} does not fit its column, whose type cannot change while ${pin.fixedBy} depends on it; drop that, or make it on the views of the copy, then sync again`
    : `${shown} is not of the type that the profile gives it`;
  refuse(run, contract, what, 'Correct the value at the service, or the type of the field in the profile.');
}

/** Sets the record or the value aside, or fails the resource, as the contract says. */
function refuse(run: Run, contract: Contract, detail: string, hint: string): void {
  if (contract === 'freeze') {
    throw new SyncError('contract_frozen', `record ${run.key}: ${detail}`, { recovery: 'stop', hint });
  }
  if (contract === 'discard_value') run.discarded++;
  else run.rejection ??= { reason: 'contract', detail };
}

const FROZEN_HINT =
  'The resource is frozen by its contract. Set "contract: evolve" in the profile to let its tables grow.';

/** A path for a message or a database: a key may hold anything, even a NUL. */
function shownPath(path: SourcePath): string {
  return visibleText(pathText(path).toWellFormed());
}

/** The rows of one table while a page is shaped. */
interface TableSheet {
  node: TableNode;
  /** Row-major; null behind `end`, where the next rows come. */
  cells: Cell[];
  width: number;
  /** Index of the first cell of the current row. */
  base: number;
  end: number;
  /** Where the rows of the current record begin. */
  recordAt: number;
  /** Members of the current row's `_overflow` object, as JSON text. */
  overflow: string[];
}

function openSheet(node: TableNode): TableSheet {
  const width = node.shape.key.length + node.shape.columns.length;
  return { node, cells: [], width, base: 0, end: 0, recordAt: 0, overflow: [] };
}

/** Begins a row of nulls behind its key and its positions in arrays. */
function beginRow(sheet: TableSheet, key: string, positions: readonly number[]): void {
  const { cells, end, width } = sheet;
  for (let at = cells.length; at < end + width; at += 1) cells.push(null);
  cells[end] = key;
  for (let depth = 0; depth < positions.length; depth += 1) cells[end + 1 + depth] = positions[depth] ?? 0;
  sheet.base = end;
  sheet.end = end + width;
}

/** Takes back the rows of the current record. */
function takeBack(sheet: TableSheet): void {
  sheet.cells.fill(null, sheet.recordAt, sheet.end);
  sheet.end = sheet.recordAt;
}

function closeSheet({ node, cells, width, end }: TableSheet): TableRows {
  cells.length = end;
  return { table: node.shape, width, cells };
}

/**
 * Bytes of one of Postgres's pages that are left after a row's header, its key, our own columns and `_overflow`. A row
 * must fit into a page, except for its long values.
 */
const MOST_BYTES = 7_800;
/** Longer values are moved out of the row; a pointer stays. */
const LONGEST_INSIDE = 24;
const POINTER = 18;
/** Bytes by type; all others are as long as their values. */
const FIXED: Partial<Record<ColumnType, number>> = { boolean: 1, date: 4, integer: 8, double: 8, timestamp: 8 };
/** Values of eight bytes begin at a multiple of eight. */
const MOST_PADDING = 7;
/** Fewer columns always fit. */
const FEW_COLUMNS = Math.floor(MOST_BYTES / LONGEST_INSIDE);
const NONE: readonly number[] = [];

/**
 * The columns, by their place among the table's, whose values Postgres could not hold in the row whose first cell
 * is at `at`, whatever the order of the columns in the database: the last long ones, until the others fit.
 */
function columnsBeyondPage(table: TableShape, cells: readonly Cell[], at: number): readonly number[] {
  if (table.columns.length <= FEW_COLUMNS) return NONE;
  const first = at + table.key.length;
  const sizes = table.columns.map(({ type }, index) => sizeOf(type, cells[first + index] ?? null));
  const aligned = table.columns.filter(({ type }, index) => FIXED[type] === 8 && sizes[index] !== 0).length;
  let others = sizes.filter((size) => size > 0).length - aligned;
  let bytes = sizes.reduce((sum, size) => sum + size, 0);
  const beyond: number[] = [];
  for (let index = sizes.length - 1; index >= 0; index -= 1) {
    if (bytes + MOST_PADDING * Math.min(aligned, others) <= MOST_BYTES) break;
    const { type } = table.columns[index] ?? { type: 'boolean' };
    if (sizes[index] === 0 || type in FIXED) continue;
    beyond.push(index);
    bytes -= sizes[index] ?? 0;
    others -= 1;
  }
  return beyond;
}

function sizeOf(type: ColumnType, cell: Cell): number {
  return cell === null ? 0 : (FIXED[type] ?? textSize(type, cell));
}

/** One byte holds the length. Numbers and JSON are stored otherwise than they are written, and count as long. */
function textSize(type: ColumnType, cell: Cell): number {
  if (type !== 'text' || typeof cell !== 'string') return LONGEST_INSIDE;
  if (cell.length >= LONGEST_INSIDE) return POINTER;
  const size = Buffer.byteLength(cell) + 1;
  return size <= LONGEST_INSIDE ? size : POINTER;
}
