import type Database from 'better-sqlite3';
import { COLUMN_TYPES, type ColumnType } from '../../../src/model/vocabulary.ts';
import { cellFault } from './cells.ts';
import { canonical, isFields, isList, type Fields, type Value } from './json-value.ts';

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
    | `cell as ${ColumnType}`
    | 'elements'
    | 'empty values'
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
  const [own, ...lists] = tables;
  const row = own === undefined ? undefined : rows.get(own.name)?.get(rowKey(key, []));
  if (own === undefined || row === undefined) return [{ kind: 'missing', key, text: `${key}: there is no such row` }];
  return [
    ...cellDifferences(own, key, body, row),
    ...lists.flatMap((table) =>
      listDifferences(table, rows.get(table.name) ?? new Map<string, unknown[]>(), key, body),
    ),
    ...lostLeaves(tables, key, body),
  ];
}

function listDifferences(
  table: CopiedTable,
  rows: ReadonlyMap<string, unknown[]>,
  key: string,
  body: Fields,
): Difference[] {
  const wanted = new Map(placesIn(body, table.path).map(({ value, positions }) => [rowKey(key, positions), value]));
  const strange = placesOf(rows, key).filter((place) => !wanted.has(place));
  return [
    ...strange.map((place): Difference => ({ kind: 'elements', key, text: `${table.name} ${place}: no such element` })),
    ...[...wanted].flatMap(([place, value]): Difference[] => {
      const row = rows.get(place);
      if (row !== undefined) return cellDifferences(table, key, value, row);
      const text = `${table.name} ${place}: there is no row for ${canonical(value)}`;
      return [{ kind: carriesAny(value) ? 'elements' : 'empty values', key, text }];
    }),
  ];
}

function cellDifferences(table: CopiedTable, key: string, element: Value, row: readonly unknown[]): Difference[] {
  return table.columns.flatMap(({ name, path, type }, at): Difference[] => {
    const value = valueAt(element, path.slice(table.path.length));
    const fault = cellFault(type, value, row[at] ?? null);
    if (fault === null) return [];
    const isEmpty = value !== null && !carriesAny(value);
    return [
      { kind: isEmpty ? 'empty values' : `cell as ${type}`, key, text: `${table.name} ${key}: ${name} ${fault}` },
    ];
  });
}

/** Whether there is anything in it but nulls, lists and objects. */
function carriesAny(value: Value): boolean {
  if (isList(value)) return value.some(carriesAny);
  return isFields(value) ? [...value.values()].some(carriesAny) : value !== null;
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
