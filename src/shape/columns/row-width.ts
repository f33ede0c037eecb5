import type { Cell, TableShape } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';

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
export function columnsBeyondPage(table: TableShape, cells: readonly Cell[], at: number): readonly number[] {
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
