import type Database from 'better-sqlite3';
import { COLUMN_TYPES, type ColumnType } from '../../../src/model/words.ts';
import { cellFault } from './cells.ts';
import { isFields, isList, type Fields, type Value } from './json-value.ts';

interface CopiedColumn {
  name: string;
  /** From the record to the value; `[]` stands for each element. */
  path: readonly string[];
  type: ColumnType;
}

/** A table as the catalogue of the copy describes it. */
export interface CopiedTable {
  name: string;
  path: readonly string[];
  keys: readonly string[];
  columns: readonly CopiedColumn[];
}

interface CatalogueRow {
  table_name: string;
  column_name: string;
  table_path: string;
  role: string;
  source_path: string;
  type: string;
}

/** A way in which the copy is not the service. */
export interface Difference {
  /** Of which kind; the same for all that have one cause, more or less. */
  kind:
    | 'no table'
    | 'missing'
    | 'not deleted'
    | 'stale'
    | 'cell'
    | 'children'
    | 'no column'
    | 'body'
    | 'chain'
    | 'history';
  key: string | null;
  text: string;
}

export const RESOURCE = 'content';

/** The tables of the resource, its own one first. */
export function tablesIn(db: Database.Database): CopiedTable[] {
  if (!hasTable(db, '_sync_columns')) return [];
  const rows = db
    .prepare<[string], CatalogueRow>(
      'SELECT * FROM _sync_columns WHERE resource = ? ORDER BY length(table_path), table_name, role, position',
    )
    .all(RESOURCE);
  return [...Map.groupBy(rows, (row) => row.table_name)].map(([name, columns]) => ({
    name,
    path: JSON.parse(columns[0]?.table_path ?? '[]'),
    keys: columns.filter(({ role }) => role === 'key').map((column) => column.column_name),
    columns: columns
      .filter(({ role }) => role === 'source')
      .map(({ column_name, source_path, type }) => ({
        name: column_name,
        path: JSON.parse(source_path),
        type: typeNamed(type),
      })),
  }));
}

/** The rows of a table by their keys, integers exact: live ones only where it is the resource's own. */
export function rowsIn(db: Database.Database, table: CopiedTable): Map<string, unknown[]> {
  const names = [...table.keys, ...table.columns.map(({ name }) => name)].map(
    (name) => `"${name.replaceAll('"', '""')}"`,
  );
  const live = table.path.length === 0 ? ' WHERE _deleted_at IS NULL' : '';
  const rows = db.prepare<[], unknown[]>(`SELECT ${names.join(',')} FROM "${table.name}"${live}`);
  const found = new Map<string, unknown[]>();
  for (const row of rows.raw().safeIntegers().all()) {
    const [id, ...positions] = row.slice(0, table.keys.length);
    found.set(rowKey(String(id), positions.map(Number)), row.slice(table.keys.length));
  }
  return found;
}

/** In what the rows of one record are not the record; nothing where they are. */
export function recordDifferences(
  tables: readonly CopiedTable[],
  rows: ReadonlyMap<string, ReadonlyMap<string, unknown[]>>,
  key: string,
  body: Fields,
): Difference[] {
  const found: Difference[] = [];
  for (const table of tables) {
    const isOwn = table.path.length === 0;
    const ofTable = rows.get(table.name) ?? new Map<string, unknown[]>();
    const wanted = new Map(placesIn(body, table.path).map(({ value, positions }) => [rowKey(key, positions), value]));
    for (const [place, value] of wanted) {
      const row = ofTable.get(place);
      if (row === undefined) {
        found.push({ kind: isOwn ? 'missing' : 'children', key, text: `${table.name} ${place}: there is no such row` });
        if (isOwn) return found;
        continue;
      }
      for (const [at, column] of table.columns.entries()) {
        const fault = cellFault(column.type, valueAt(value, column.path.slice(table.path.length)), row[at] ?? null);
        if (fault !== null) found.push({ kind: 'cell', key, text: `${table.name} ${place}: ${column.name} ${fault}` });
      }
    }
    for (const place of isOwn ? [] : placesOf(ofTable, key)) {
      if (!wanted.has(place))
        found.push({ kind: 'children', key, text: `${table.name} ${place}: there is no such element` });
    }
  }
  return [...found, ...lostLeaves(tables, key, body)];
}

/** Values for which the copy has no place at all. */
function lostLeaves(tables: readonly CopiedTable[], key: string, body: Fields): Difference[] {
  const [own] = tables;
  const known = new Set(tables.flatMap(({ columns }) => columns.map(({ path }) => JSON.stringify(path))));
  const lost: Difference[] = [];
  const visit = (value: Value, path: readonly string[]): void => {
    if (value === null || known.has(JSON.stringify(path))) return;
    if (isList(value)) value.forEach((each) => visit(each, [...path, '[]']));
    else if (isFields(value)) value.forEach((each, name) => visit(each, [...path, name]));
    else if (!(path.length === 1 && path[0] === 'id' && own?.keys.length === 1)) {
      lost.push({ kind: 'no column', key, text: `no column for ${JSON.stringify(path)}` });
    }
  };
  visit(body, []);
  return lost;
}

/** The elements that are rows of the table at `path`, each with its positions; the record itself for no path. */
function placesIn(
  value: Value,
  path: readonly string[],
  positions: readonly number[] = [],
): { value: Value; positions: readonly number[] }[] {
  const [part, ...rest] = path;
  if (part === undefined) return [{ value, positions }];
  if (part !== '[]') return placesIn(valueAt(value, [part]), rest, positions);
  return isList(value) ? value.flatMap((each, at) => placesIn(each, rest, [...positions, at])) : [];
}

function valueAt(value: Value, path: readonly string[]): Value {
  return path.reduce<Value>((at, key) => (isFields(at) ? (at.get(key) ?? null) : null), value);
}

function rowKey(key: string, positions: readonly number[]): string {
  return JSON.stringify([key, ...positions]);
}

function placesOf(rows: ReadonlyMap<string, unknown[]>, key: string): string[] {
  const start = `${JSON.stringify([key]).slice(0, -1)},`;
  return [...rows.keys()].filter((place) => place.startsWith(start));
}

export function hasTable(db: Database.Database, name: string): boolean {
  return db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").get(name) !== undefined;
}

function typeNamed(name: string): ColumnType {
  const type = COLUMN_TYPES.find((candidate) => candidate === name);
  if (type === undefined) throw new Error(`no column type: ${name}`);
  return type;
}
