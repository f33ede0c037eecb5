import type { Cell, ResourceShape, SourcePath, TableRows, TableShape } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { EACH, pathText } from '../../shape/columns/source-path.ts';
import { textHash } from '../../shape/records/fingerprint.ts';
import { canonicalDecimal, canonicalJson } from '../../warehouse/copy/value-kinds.ts';
import type { ReadColumn, SnapshotReader, ViewQuery } from '../../warehouse/snapshot-reader.ts';

/** A row of a table of a resource, each cell in the one spelling that its value has. */
export interface SpelledRow {
  /** Place of the table in the shape. */
  table: number;
  /** The record's key. */
  key: string;
  /** In the lists that it is an element of, outermost first. */
  positions: readonly string[];
  cells: readonly (string | null)[];
}

const TRUTHS: Readonly<Record<string, string>> = { 0: 'false', f: 'false', 1: 'true', t: 'true' };

const SPELLINGS: Partial<Record<ColumnType, (text: string) => string>> = {
  boolean: (text) => TRUTHS[text] ?? text,
  double: (text) => (Number.isNaN(Number(text)) ? text : String(Number(text))),
  numeric: canonicalDecimal,
  timestamp: (text) => plainTime(text),
  json: canonicalJson,
};

/** A value in the one spelling that it has, whether it was shaped just now or read from either database; a value of another type stays as it is. */
function spelled(type: ColumnType, cell: Cell): string | null {
  return cell === null ? null : (SPELLINGS[type]?.(String(cell)) ?? String(cell));
}

/** To the millisecond: SQLite keeps no more, nor does a copy from there. */
function plainTime(text: string): string {
  const utc = text.endsWith('+00') ? text.slice(0, -3) : text;
  const point = utc.lastIndexOf('.');
  if (point === -1) return utc;
  let end = Math.min(utc.length, point + 4);
  while (utc[end - 1] === '0') end -= 1;
  return utc.slice(0, end - 1 === point ? point : end);
}

/** Shaped rows, in the order of the shape's tables and within one in that of the records. */
export function* shapedRows(shape: ResourceShape, rows: readonly TableRows[]): Generator<SpelledRow> {
  const byName = new Map(rows.map((each) => [each.table.name, each]));
  for (const [index, table] of shape.tables.entries()) {
    const { cells = [], width = 1 } = byName.get(table.name) ?? {};
    for (let at = 0; at < cells.length; at += width) {
      const row = cells.slice(at, at + width);
      const positions = row.slice(1, table.key.length).map(String);
      const spelt = table.columns.map(({ type }, column) => spelled(type, row[table.key.length + column] ?? null));
      yield { table: index, key: String(row[0]), positions, cells: spelt };
    }
  }
}

/** Columns that are read as the database writes them: a damaged cell is no error. */
function asText(name: string): ReadColumn {
  return { name, type: 'text' };
}

/** Rows of one of the shape's tables as they stand, by key and positions; `own` are the cells of columns of ours. */
export async function* storedRows(
  snapshot: SnapshotReader,
  shape: ResourceShape,
  index: number,
  chosen: Pick<ViewQuery, 'within' | 'where' | 'limit'>,
  ours: readonly string[] = [],
): AsyncGenerator<SpelledRow & { own: readonly (string | null)[] }> {
  const table = shape.tables[index];
  if (table === undefined) return;
  const keys = table.key.length;
  const columns = [...table.key, ...ours, ...table.columns.map(({ name }) => name)].map(asText);
  const orderBy = table.key.map((name, at): ReadColumn => ({ name, type: at === 0 ? 'text' : 'integer' }));
  for await (const batch of snapshot.rows({ view: table.name, columns, orderBy, ...chosen })) {
    for (const row of batch) {
      const texts = row.map((cell) => (cell === null ? null : String(cell)));
      const cells = table.columns.map(({ type }, at) => spelled(type, texts[keys + ours.length + at] ?? null));
      const positions = texts.slice(1, keys).map(String);
      yield { table: index, key: texts[0] ?? '', positions, cells, own: texts.slice(keys, keys + ours.length) };
    }
  }
}

/** What a record's rows come to, added up one after the other; '' before the first. */
export function addToDigest(digest: string, { table, positions, cells }: SpelledRow): string {
  return textHash(`${digest}${JSON.stringify([table, positions, cells])}`);
}

/** Cells of one record by the path of their field, such as `authors[1].name`; and each of its child rows by its own. */
export function cellsByField(shape: ResourceShape, rows: Iterable<SpelledRow>): Map<string, string | null> {
  const cells = new Map<string, string | null>();
  for (const row of rows) {
    const table = shape.tables[row.table];
    if (table === undefined) continue;
    cells.set(placeOf(table.path, row.positions), 'row');
    for (const [at, column] of table.columns.entries()) {
      const cell = row.cells[at] ?? null;
      if (cell !== null) cells.set(fieldOf(table, column.path, row.positions), cell);
    }
  }
  return cells;
}

function fieldOf(table: TableShape, path: SourcePath, positions: readonly string[]): string {
  return path.length === table.path.length ? `${placeOf(path, positions)}.` : placeOf(path, positions);
}

function placeOf(path: SourcePath, positions: readonly string[]): string {
  let at = 0;
  const parts = path.map((part) => (part === EACH ? `[${positions[at++] ?? ''}]` : part));
  return pathText(parts).replaceAll('.[', '[');
}

/** Fields in which two readings of one record differ, in their order. */
export function differingFields(
  a: ReadonlyMap<string, string | null>,
  b: ReadonlyMap<string, string | null>,
): string[] {
  const names = new Set([...a.keys(), ...b.keys()]);
  const differing = [...names].filter((name) => a.get(name) !== b.get(name));
  return [...new Set(differing.map((name) => name.replace(/\.$/, '')))];
}
