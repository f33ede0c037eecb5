// Converts rows of the copy and records of the service to canonical text, so that `verify` can compare them. Example: for
// true, SQLite returns 1, Postgres `t`, and a record has `true`; the canonical text of all three is `true`.
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { FieldSettings } from '../../config/profile/record-fields.ts';
import type { ReadColumn, SnapshotReader, ViewQuery } from '../../database/snapshot-reader.ts';
import type { Cell, Column, ResourceShape, SourcePath, TableRows, TableShape } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { keysOf, keysOfText, OVERFLOW } from '../../rows/columns/column-name.ts';
import { canonicalDecimal, canonicalJson } from '../../rows/json/canonical-json.ts';
import { textHash } from '../../rows/records/record-key.ts';
import { shapeRecords } from '../../rows/shape-page.ts';
import type { ShapeRecord } from '../../rows/shape-page.ts';

/** A row of a resource's table, each cell as canonical text. */
interface ComparableRow {
  table: TableShape;
  key: string;
  /** Positions in the lists that the row is an element of, outermost first. */
  positions: readonly string[];
  cells: readonly (string | null)[];
}

/** A record in the copy: its row and child rows. */
export interface CopiedRecord {
  key: string;
  hash: string;
  version: number;
  isDeleted: boolean;
  rows: ComparableRow[];
}

const BOOLEANS: Readonly<Record<string, string>> = { 0: 'false', f: 'false', 1: 'true', t: 'true' };

const MAX_TIME_CHARACTERS = 40;

/** Converts the text of a value to canonical text; types that are not listed have only one form. */
const CANONICAL: Partial<Record<ColumnType, (text: string) => string>> = {
  boolean: (text) => BOOLEANS[text] ?? text,
  double: (text) => (Number.isNaN(Number(text)) ? text : String(Number(text))),
  numeric: canonicalDecimal,
  timestamp: canonicalTime,
  json: canonicalJson,
};

/**
 * Removes the zone of UTC, digits below the millisecond, which SQLite does not keep, and zeros at the end of a fraction.
 * A longer text is no time.
 */
function canonicalTime(text: string): string {
  if (text.length > MAX_TIME_CHARACTERS) return text;
  const utc = text.replace(/\+00$/, '');
  const point = utc.indexOf('.');
  if (point === -1) return utc;
  return utc.slice(0, point + 4).replace(/\.?0*$/, '');
}

/** Returns the shape without the columns and tables that have values of fields with `compare: false`. */
export function comparedShape(shape: ResourceShape, fields: Readonly<Record<string, FieldSettings>>): ResourceShape {
  const uncompared = Object.entries(fields).flatMap(([path, { compare }]) => (compare ? [] : [keysOfText(path)]));
  if (uncompared.length === 0) return shape;
  const isCompared = (path: SourcePath): boolean =>
    path.at(-1) !== OVERFLOW && !uncompared.some((field) => startsWith(keysOf(path), field));
  // A JSON column may contain the field as a part of its value.
  const containsUncompared = ({ path, type }: Column): boolean =>
    type === 'json' && uncompared.some((field) => startsWith(field, keysOf(path)));
  const tables = shape.tables.map((table) => {
    const columns = table.columns.filter((column) => isCompared(column.path) && !containsUncompared(column));
    return { ...table, columns };
  });
  return { ...shape, tables: tables.filter(({ path }) => isCompared(path)) };
}

function startsWith(path: readonly string[], start: readonly string[]): boolean {
  return start.every((key, at) => path[at] === key);
}

/** A value that does not fit the type of its column stays unchanged, so that it counts as a difference. */
function canonicalCell(type: ColumnType, cell: Cell): string | null {
  return cell === null ? null : (CANONICAL[type]?.(String(cell)) ?? String(cell));
}

/**
 * Returns the rows that loading these records would write, by key; null for a record that the copy would reject. If a record
 * needs tables or columns that `shape` lacks, its rows have them, and so differ from all rows of the copy.
 */
export function rowsOfRecords(
  shape: ResourceShape,
  profile: ResourceProfile,
  records: readonly ShapeRecord[],
): Map<string, ComparableRow[] | null> {
  // With `freeze`, a record that does not fit would be an error, but here it is only a difference.
  const contract = profile.contract === 'freeze' ? 'evolve' : profile.contract;
  const shaped = shapeRecords({ shape, profile: { ...profile, contract }, records });
  // If one record needs further tables, each is shaped by itself, so that the rows of the others do not change.
  if (shaped.shape !== shape && records.length > 1)
    return new Map(records.flatMap((record) => [...rowsOfRecords(shape, profile, [record])]));
  const rows = Map.groupBy(toComparableRows(shaped.shape, shaped.rows), ({ key }) => key);
  const rejected = new Set(shaped.rejects.map(({ index }) => records[index]?.key));
  return new Map(records.map(({ key }) => [key, rejected.has(key) ? null : (rows.get(key) ?? [])]));
}

function* toComparableRows({ tables }: ResourceShape, rows: readonly TableRows[]): Generator<ComparableRow> {
  const byName = new Map(rows.map((each) => [each.table.name, each]));
  for (const table of tables) {
    const { cells = [], width = 1 } = byName.get(table.name) ?? {};
    const keys = table.key.length;
    for (let at = 0; at < cells.length; at += width) {
      const row = cells.slice(at, at + width);
      const canonical = table.columns.map(({ type }, column) => canonicalCell(type, row[keys + column] ?? null));
      yield { table, key: String(row[0]), positions: row.slice(1, keys).map(String), cells: canonical };
    }
  }
}

const META_COLUMNS = ['_hash', '_version', '_deleted_at'];
const RECORDS_PER_PAGE = 500;

/** Records of the copy with consecutive keys. */
export interface CopiedPage {
  records: Map<string, CopiedRecord>;
  /** Child rows whose record has no row. */
  orphans: { table: string; key: string }[];
}

/** Reads all records of a resource in the order of their keys, page by page. */
export async function* readCopiedPages(snapshot: SnapshotReader, shape: ResourceShape): AsyncGenerator<CopiedPage> {
  const [root, ...children] = shape.tables;
  if (root === undefined) return;
  for (let from: string | null = null; ;) {
    const records = new Map<string, CopiedRecord>();
    // The first key of the next page; null on the last page.
    let below: string | null = null;
    const within: NonNullable<ViewQuery['within']> = { column: keyColumn(root), from, below: null };
    const page = { within, limit: RECORDS_PER_PAGE + 1 };
    for await (const { row, meta } of readRows(snapshot, root, page, META_COLUMNS)) {
      if (records.size === RECORDS_PER_PAGE) below = row.key;
      else records.set(row.key, toCopiedRecord(row, meta));
    }
    const orphans = new Map<string, { table: string; key: string }>();
    for (const table of children) {
      const within = { column: keyColumn(table), from, below };
      for await (const { row } of readRows(snapshot, table, { within })) {
        const record = records.get(row.key);
        if (record === undefined) orphans.set(`${table.name} ${row.key}`, { table: table.name, key: row.key });
        else record.rows.push(row);
      }
    }
    yield { records, orphans: [...orphans.values()] };
    if (below === null) return;
    from = below;
  }
}

/** Reads one record of the copy; null if it has no row. */
export async function readCopiedRecord(
  snapshot: SnapshotReader,
  { tables }: ResourceShape,
  key: string,
): Promise<CopiedRecord | null> {
  let record: CopiedRecord | null = null;
  for (const table of tables) {
    const where = { column: table.key[0] ?? '', is: key };
    for await (const { row, meta } of readRows(snapshot, table, { where }, table === tables[0] ? META_COLUMNS : [])) {
      if (table === tables[0]) record = toCopiedRecord(row, meta);
      else record?.rows.push(row);
    }
  }
  return record;
}

function toCopiedRecord(row: ComparableRow, [hash, version, deletedAt]: readonly (string | null)[]): CopiedRecord {
  return { key: row.key, hash: hash ?? '', version: Number(version), isDeleted: deletedAt !== null, rows: [row] };
}

function keyColumn({ key }: TableShape): ReadColumn {
  return { name: key[0] ?? '', type: 'text' };
}

/** Reads rows of a table. All columns are read as text, so that a damaged cell is a difference and no error. */
async function* readRows(
  snapshot: SnapshotReader,
  table: TableShape,
  chosen: Partial<ViewQuery>,
  metaColumns: readonly string[] = [],
): AsyncGenerator<{ row: ComparableRow; meta: readonly (string | null)[] }> {
  const keys = table.key.length;
  const first = keys + metaColumns.length;
  const names = [...table.key, ...metaColumns, ...table.columns.map(({ name }) => name)];
  const columns = names.map((name): ReadColumn => ({ name, type: 'text' }));
  const orderBy = table.key.map((name, at): ReadColumn => ({ name, type: at === 0 ? 'text' : 'integer' }));
  for await (const batch of snapshot.rows({ view: table.name, columns, orderBy, ...chosen })) {
    for (const row of batch) {
      const texts = row.map((cell) => (cell === null ? null : String(cell)));
      const cells = table.columns.map(({ type }, at) => canonicalCell(type, texts[first + at] ?? null));
      const positions = texts.slice(1, keys).map(String);
      yield { row: { table, key: texts[0] ?? '', positions, cells }, meta: texts.slice(keys, first) };
    }
  }
}

/** Returns a hash that is equal for records with equal rows. */
export function hashRows(rows: readonly ComparableRow[]): string {
  return textHash(JSON.stringify(rows.map(({ table, positions, cells }) => [table.name, positions, cells])));
}

/** Returns where two records differ: cells such as `content_authors[1].name`, or rows that only one of them has. */
export function differingFields(a: readonly ComparableRow[], b: readonly ComparableRow[]): string[] {
  const [first, second] = [cellsByColumn(a), cellsByColumn(b)];
  const names = new Set([...first.keys(), ...second.keys()]);
  return [...names].filter((name) => first.get(name) !== second.get(name));
}

function cellsByColumn(rows: readonly ComparableRow[]): Map<string, string> {
  const cells = new Map<string, string>();
  for (const { table, positions, cells: values } of rows) {
    const row = `${table.name}${positions.map((position) => `[${position}]`).join('')}`;
    cells.set(row, '');
    for (const [at, value] of values.entries()) {
      if (value !== null) cells.set(`${row}.${table.columns[at]?.name}`, value);
    }
  }
  return cells;
}
