import type { JsonObject, JsonValue } from '../model/json.ts';
import type { Cell, SourcePath, TableRows } from '../model/table.ts';
import type { Contract } from '../model/vocabulary.ts';
import { repairJson, type CellNotes } from './columns/cells.ts';
import { columnsBeyondPage } from './columns/row-width.ts';
import { pathPart, pathText } from './columns/source-path.ts';
import { jsonText } from './json/json-text.ts';
import { BACKSLASH } from './json/scan-json.ts';
import { hasContent, isObject } from './records/field-at.ts';
import { ON_MISFIT, ON_PIN_MISFIT } from './misfit.ts';
import { NOT_AN_OBJECT, type Rejection } from './records/record-limits.ts';
import {
  isFull,
  isWorthStoring,
  isFieldWorthStoring,
  pinnedSlot,
  takesPinned,
  type Level,
  type List,
  type ShapeTree,
  type Slot,
  type TableNode,
} from './shape-tree.ts';

/** A record that has its key. `bytes` are the source of `value`: what they do not hold is not looked for. */
export interface ShapeRecord {
  key: string;
  value: JsonValue;
  bytes: Buffer;
}

/** A record after the check of its limits; safe to walk only if it has no rejection. */
export interface CheckedRecord extends ShapeRecord {
  rejection: Rejection | null;
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
  /** Tables in which a row was too wide and that have no `_overflow` column yet, by name. */
  spills: Set<string>;
}

/** The page under way. Arrays are by table, in the order of the shape. */
interface Run extends CellNotes, Omit<WrittenRows, 'rows'> {
  tree: ShapeTree;
  contract: Contract;
  cells: Cell[][];
  /** Where each table's current row begins. */
  bases: number[];
  /** Members of the current row's `_overflow` object, as JSON text. */
  overflow: string[][];
  key: string;
  /** Positions in the arrays that the walk is in, outermost first. */
  positions: number[];
  /** Set if the current record does not fit under the contract `discard_row`. */
  rejection: Rejection | null;
}

/** Writes the records into rows of the tree's tables, in order. Throws `SyncError('contract_frozen')`. */
export function writeRows(tree: ShapeTree, contract: Contract, records: readonly CheckedRecord[]): WrittenRows {
  const run: Run = {
    tree,
    contract,
    cells: tree.tables.map(() => []),
    bases: tree.tables.map(() => 0),
    overflow: tree.tables.map(() => []),
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
  records.forEach((record, index) => {
    const rejection = record.rejection ?? writeRecord(run, record);
    if (rejection !== null) run.rejects.push({ index, ...rejection });
  });
  return { ...run, rows: tableRows(run) };
}

function tableRows({ tree, cells }: Run): TableRows[] {
  return tree.tables.map(({ shape: table, index }) => ({
    table,
    width: table.key.length + table.columns.length,
    cells: cells[index] ?? [],
  }));
}

function writeRecord(run: Run, { key, value, bytes }: ShapeRecord): Rejection | null {
  if (!isObject(value)) return NOT_AN_OBJECT;
  const starts = run.cells.map((cells) => cells.length);
  const { misfit } = run;
  run.key = key;
  // Finding a byte is much faster than finding a text.
  run.suspect = bytes.includes(BACKSLASH) && bytes.includes('\\u');
  run.rejection = null;
  startRow(run, run.tree.root.table);
  writeLevel(run, run.tree.root, value, false);
  endRow(run, run.tree.root.table);
  if (run.rejection === null) return null;
  run.cells.forEach((cells, index) => (cells.length = starts[index] ?? 0));
  // No table grows for a record that is set aside.
  run.misfit = misfit;
  return run.rejection;
}

function startRow(run: Run, table: TableNode): void {
  const cells = run.cells[table.index] ?? [];
  run.bases[table.index] = cells.length;
  cells.push(run.key);
  for (const position of run.positions) cells.push(position);
  for (let count = table.shape.columns.length; count > 0; count--) cells.push(null);
}

function endRow(run: Run, table: TableNode): void {
  const [cells, base] = [run.cells[table.index] ?? [], run.bases[table.index] ?? 0];
  for (const index of columnsBeyondPage(table.shape, cells, base)) spill(run, table, index);
  const overflow = run.overflow[table.index];
  if (overflow === undefined || overflow.length === 0) return;
  setCell(run, table, table.overflowAt, `{${overflow.join(',')}}`);
  overflow.length = 0;
}

/** Moves a value that has a column into the overflow of a row that is too wide for a database. */
function spill(run: Run, table: TableNode, index: number): void {
  const column = table.shape.columns[index];
  const at = table.shape.key.length + index;
  if (column === undefined || at === table.overflowAt) return;
  const cell = run.cells[table.index]?.[(run.bases[table.index] ?? 0) + at] ?? null;
  setCell(run, table, at, null);
  if (table.overflowAt < 0) {
    run.spills.add(table.shape.name);
    ON_MISFIT[run.contract](run, column.path);
  } else {
    addToOverflow(run, table, column.path, column.type === 'text' ? JSON.stringify(cell) : String(cell));
  }
}

function setCell(run: Run, table: TableNode, at: number, cell: Cell): void {
  const cells = run.cells[table.index];
  if (cells !== undefined) cells[(run.bases[table.index] ?? 0) + at] = cell;
}

/**
 * `closed` is true inside a value that is kept whole in a JSON column as well, because its field has been an object or
 * array at one time and something else at another: what has columns goes on filling them, but nothing new gets one.
 */
function writeLevel(run: Run, level: Level, object: JsonObject, closed: boolean): void {
  for (const key in object) {
    const value = object[key];
    if (value === null || value === undefined) continue;
    const slot = level.slots.get(key) ?? (closed ? undefined : pinnedSlot(level, key, run.tree.profile));
    if (slot !== undefined) writeSlot(run, slot, value, closed);
    else if (!closed && isFieldWorthStoring(level, key, value, run.tree.profile))
      writeUnplaced(run, level.table, [...level.path, pathPart(key)], value);
  }
}

function writeSlot(run: Run, slot: Slot, value: JsonValue, closed: boolean): void {
  if (!slot.skip && slot.pin !== null && !takesPinned(slot, value, run.tree)) {
    if (hasContent(value)) ON_PIN_MISFIT[run.tree.profile.contract](run, slot.path);
    return;
  }
  if (slot.at >= 0) {
    const cell = slot.toCell(value, run);
    // A value without content is null in every column but one of JSON.
    if (cell === undefined && hasContent(value)) ON_MISFIT[run.contract](run, slot.path);
    else if (cell !== undefined) setCell(run, slot.table, slot.at, cell);
    if (slot.level === null && slot.list === null) return;
  } else if (slot.skip) {
    return;
  }
  const inColumn = slot.at >= 0;
  const inside = typeof value === 'object' && writeInside(run, slot, value, closed || inColumn);
  if (inColumn || closed || (inside && !slot.json)) return;
  if (isWorthStoring(slot, value, run.tree.profile)) writeUnplaced(run, slot.table, slot.path, value);
}

/** Writes what has its own columns or rows in the object or array; false if it has none there. */
function writeInside(run: Run, slot: Slot, value: JsonValue, closed: boolean): boolean {
  if (Array.isArray(value)) {
    if (slot.list !== null) writeList(run, slot.list, value, closed);
    return slot.list !== null;
  }
  if (slot.level === null || !isObject(value)) return false;
  writeLevel(run, slot.level, value, closed);
  return true;
}

function writeList(run: Run, list: List, elements: readonly JsonValue[], closed: boolean): void {
  const depth = run.positions.push(0);
  elements.forEach((element, position) => {
    run.positions[depth - 1] = position;
    startRow(run, list.table);
    if (element !== null) writeSlot(run, list.element, element, closed);
    endRow(run, list.table);
  });
  run.positions.pop();
}

/** A value for which there is no column: into the overflow of a full table, else a misfit. */
function writeUnplaced(run: Run, table: TableNode, path: SourcePath, value: JsonValue): void {
  if (table.overflowAt < 0 || !isFull(table, run.tree.profile)) {
    ON_MISFIT[run.contract](run, path);
    return;
  }
  addToOverflow(run, table, path, repairJson(jsonText(value), run));
}

function addToOverflow(run: Run, table: TableNode, path: SourcePath, json: string): void {
  const name = repairJson(JSON.stringify(pathText(path.slice(table.shape.path.length))), run);
  run.overflow[table.index]?.push(`${name}:${json}`);
  run.overflowed++;
}
