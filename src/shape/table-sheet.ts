import type { Cell, TableRows } from '../model/table.ts';
import { columnsBeyondPage } from './columns/row-width.ts';
import type { TableNode } from './shape-tree.ts';

/** The rows of one table while a page is shaped. */
export interface TableSheet {
  node: TableNode;
  /** Row-major; null behind `end`, where the next rows come. */
  cells: Cell[];
  width: number;
  /** Where the row under way begins. */
  base: number;
  end: number;
  /** Where the rows of the current record begin. */
  recordAt: number;
  /** Members of the current row's `_overflow` object, as JSON text. */
  overflow: string[];
}

export function openSheet(node: TableNode): TableSheet {
  const width = node.shape.key.length + node.shape.columns.length;
  return { node, cells: [], width, base: 0, end: 0, recordAt: 0, overflow: [] };
}

/** Begins a row of nulls behind its key and its positions in arrays. */
export function beginRow(sheet: TableSheet, key: string, positions: readonly number[]): void {
  const { cells, end, width } = sheet;
  for (let at = cells.length; at < end + width; at += 1) cells.push(null);
  cells[end] = key;
  for (let depth = 0; depth < positions.length; depth += 1) cells[end + 1 + depth] = positions[depth] ?? 0;
  sheet.base = end;
  sheet.end = end + width;
}

/** The columns of the current row, by their place in the table, whose values a database could not hold in it. */
export function columnsBeyond({ node, cells, base }: TableSheet): readonly number[] {
  return columnsBeyondPage(node.shape, cells, base);
}

/** Takes back the rows of the current record. */
export function takeBack(sheet: TableSheet): void {
  sheet.cells.fill(null, sheet.recordAt, sheet.end);
  sheet.end = sheet.recordAt;
}

export function closeSheet({ node, cells, width, end }: TableSheet): TableRows {
  cells.length = end;
  return { table: node.shape, width, cells };
}
