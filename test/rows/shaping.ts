import type { Cell, ResourceShape } from '../../src/model/table.ts';
import { parseJson } from '../../src/rows/json/parse-json.ts';
import { initialShape, type ShapedPage, shapeRecords } from '../../src/rows/shape-page.ts';
import type { ShapeRecord } from '../../src/rows/shape-page.ts';
import type { ShapeProfile } from '../../src/rows/shape-tree.ts';

export const PROFILE: ShapeProfile = { id: 'id', depth: 4, json: [], times: {}, max_columns: 200, contract: 'evolve' };

/** Records with keys 1, 2, ... from their source texts. */
export function recordsOf(...texts: string[]): ShapeRecord[] {
  return texts.map((text, index) => ({ key: String(index + 1), value: parseJson(text), bytes: Buffer.from(text) }));
}

/** Shapes pages of source texts one after the other, each on what the one before left. */
export function shapePages(pages: string[][], profile: Partial<ShapeProfile> = {}): ShapedPage[] {
  const whole = { ...PROFILE, ...profile };
  let shape: ResourceShape = initialShape('content', whole);
  return pages.map((texts) => {
    const page = shapeRecords({ shape, profile: whole, records: recordsOf(...texts) });
    ({ shape } = page);
    return page;
  });
}

/** One page on an empty resource. */
export function shapePage(texts: string[], profile: Partial<ShapeProfile> = {}): ShapedPage {
  return shapePages([texts], profile)[0] ?? raise('no page');
}

/** The rows of one table as objects, keys included. */
export function rowsOf(page: ShapedPage, table: string): Record<string, Cell>[] {
  const rows = page.rows.find((candidate) => candidate.table.name === table);
  if (rows === undefined) return [];
  const names = [...rows.table.key, ...rows.table.columns.map((column) => column.name)];
  if (names.length !== rows.width || rows.cells.length % rows.width !== 0) raise(`ragged rows of ${table}`);
  return Array.from({ length: rows.cells.length / rows.width }, (_, row) =>
    Object.fromEntries(names.map((name, at) => [name, rows.cells[row * rows.width + at] ?? null])),
  );
}

/** The columns of all tables, each as `table.column type`. */
export function columnsOf(shape: ResourceShape): string[] {
  return shape.tables.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column.name} ${column.type}`));
}

function raise(message: string): never {
  throw new Error(message);
}
