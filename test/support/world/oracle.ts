import type Database from 'better-sqlite3';
import type { ColumnType } from '../../../src/model/vocabulary.ts';
import { decimal, typeNamed } from '../copied-cells.ts';
import {
  canonical,
  canonicalStored,
  Digits,
  type Fields,
  isFields,
  isList,
  parsed,
  storable,
  type Value,
  written,
} from './json-value.ts';

/** What must be in the copy: by key the body, null for a record that must not be live, `either` for one that may be. */
export type Truth = ReadonlyMap<string, Fields | null | 'either'>;

interface Version {
  id: string;
  version: number;
  valid_from: string;
  valid_to: string | null;
  op: 'upsert' | 'delete';
  body: string | null;
}

interface Compared {
  /** The bodies that versions keep, by key, where they are not what the rows hold. */
  sent?: ReadonlyMap<string, Fields>;
  resource?: string;
  /** False where the profile keeps no bodies. */
  hasBodies?: boolean;
}

/** Everything in which the copy is not the truth. With `isWhole`, rows that the truth does not know are too many. */
export function differencesFrom(
  db: Database.Database,
  truth: Truth,
  isWhole: boolean,
  { sent = new Map(), resource = RESOURCE, hasBodies = true }: Compared = {},
): Difference[] {
  const tables = tablesIn(db, resource);
  const [own] = tables;
  if (own === undefined) {
    const isNeeded = [...truth.values()].some((body) => body !== null && body !== 'either');
    return isNeeded ? [{ kind: 'no table', key: null, text: 'there is no table' }] : [];
  }
  const rows = new Map(tables.map((table) => [table.name, rowsIn(db, table)]));
  const live = new Set([...(rows.get(own.name) ?? new Map<string, unknown>()).keys()].map(keyIn));
  const places = new Map([...rows].map(([name, all]) => [name, Map.groupBy(all.keys(), keyIn)]));
  const copy = { tables, rows, places, live, bodies: hasBodies ? openBodies(db, resource) : null, sent };
  const found = [...truth].flatMap(([key, wanted]) => (wanted === 'either' ? [] : differencesOf(copy, key, wanted)));
  return [...found, ...(isWhole ? strangers(live, truth) : []), ...orphans(rows, own, live)];
}

interface Copy {
  tables: readonly CopiedTable[];
  rows: ReadonlyMap<string, ReadonlyMap<string, unknown[]>>;
  /** Keys of live rows. */
  live: ReadonlySet<string>;
  /** Keys of the rows of each table, by that of their record. */
  places: ReadonlyMap<string, ReadonlyMap<string, string[]>>;
  /** Of the open versions; null where none are kept. */
  bodies: ReadonlyMap<string, string | null> | null;
  /** Bodies as the service sends them, where its rows hold something else. */
  sent: ReadonlyMap<string, Fields>;
}

function differencesOf(copy: Copy, key: string, body: Fields | null): Difference[] {
  const { live, bodies, sent } = copy;
  if (body === null) {
    return live.has(key)
      ? [{ kind: 'not deleted', key, text: `${key} is live and the service has no such record` }]
      : [];
  }
  if (!live.has(key) || bodies === null) return recordDifferences(copy, key, body);
  const stored = bodies.get(key) ?? null;
  if (stored === null) return [{ kind: 'body', key, text: `${key} has no open version` }];
  // The whole record is another one: its cells only say so once more.
  const whole = canonical(sent.get(key) ?? body);
  const isStale = stored !== written(sent.get(key) ?? body) && canonical(parsed(stored)) !== whole;
  const text = `${key} is ${stored}, should be ${whole}`;
  return isStale ? [{ kind: 'stale', key, text }] : recordDifferences(copy, key, body);
}

function strangers(live: ReadonlySet<string>, truth: Truth): Difference[] {
  return [...live]
    .filter((key) => !truth.has(key))
    .map((key) => ({ kind: 'not deleted', key, text: `${key} is live and the service never had such a record` }));
}

/** Rows of lists whose record is not live. */
function orphans(
  rows: ReadonlyMap<string, ReadonlyMap<string, unknown>>,
  own: CopiedTable,
  live: ReadonlySet<string>,
): Difference[] {
  return [...rows].flatMap(([name, ofTable]) =>
    name === own.name
      ? []
      : [...ofTable.keys()]
          .filter((place) => !live.has(keyIn(place)))
          .map((place): Difference => ({
            kind: 'elements',
            key: keyIn(place),
            text: `${name} ${place}: its record is not live`,
          })),
  );
}

function keyIn(place: string): string {
  const parts: unknown = JSON.parse(place);
  return Array.isArray(parts) ? String(parts[0]) : '';
}

function openBodies(db: Database.Database, resource: string): Map<string, string | null> {
  const open = versionsIn(db, resource).filter(({ valid_to, op }) => valid_to === null && op === 'upsert');
  return new Map(open.map(({ id, body }) => [id, body]));
}

function versionsIn(db: Database.Database, resource = RESOURCE): Version[] {
  if (!hasTable(db, '_sync_versions')) return [];
  return db
    .prepare<[string], Version>(
      `SELECT id, version, valid_from, valid_to, op, body FROM _sync_versions WHERE resource = ? ORDER BY id, version`,
    )
    .all(resource);
}

/** What a record was at a time. */
export interface PastState {
  /** Canonical. */
  body: string;
  updatedAt: number | null;
}

interface Remembering {
  /** All that a record ever was, oldest first, by its key. */
  past: ReadonlyMap<string, readonly PastState[]>;
}

interface RowState {
  id: string;
  version: number;
  isDeleted: number;
}

/**
 * What must hold of the history whatever a run said: versions in one piece, the last one open and that of the row, a
 * delete exactly where the row is deleted; and no body that the record never had. Where `isOrdered`, none either that
 * its own time calls older than the one in front of it, and that it was not restored to.
 */
export function historyFaults(db: Database.Database, { past }: Remembering, isOrdered: boolean): Difference[] {
  const [own] = tablesIn(db);
  if (own === undefined || !hasTable(db, own.name)) return [];
  const chains = Map.groupBy(versionsIn(db), ({ id }) => id);
  const states = db
    .prepare<[], RowState>(
      `SELECT "${own.keys[0]}" AS id, _version AS version, _deleted_at IS NOT NULL AS isDeleted FROM "${own.name}"`,
    )
    .all();
  const strays = [...chains.keys()].filter((id) => !states.some((state) => state.id === id));
  return [
    ...strays.map((key): Difference => ({ kind: 'chain', key, text: `${key}: versions without a row` })),
    ...states.flatMap((state) => historyFault(state, chains.get(state.id) ?? [], past.get(state.id) ?? [], isOrdered)),
  ];
}

function historyFault(
  state: RowState,
  chain: readonly Version[],
  past: readonly PastState[],
  isOrdered: boolean,
): Difference[] {
  const key = state.id;
  const broken = chainFault(state, chain);
  if (broken !== null) return [{ kind: 'chain', key, text: `${key}: ${broken}` }];
  const never = neverWas(chain, past, isOrdered);
  return never === null ? [] : [{ kind: 'history', key, text: `${key}: ${never}` }];
}

function chainFault(state: RowState, chain: readonly Version[]): string | null {
  const last = chain.at(-1);
  if (last === undefined) return 'no version';
  if (last.valid_to !== null) return `its last version ${last.version} is closed`;
  if (last.version !== state.version) return `is of version ${state.version}, its last one is ${last.version}`;
  if ((last.op === 'delete') !== (state.isDeleted === 1)) return `its last version is a ${last.op}`;
  const gap = chain.findIndex(({ valid_to, version }, at) => {
    const next = chain[at + 1];
    return next !== undefined && (valid_to !== next.valid_from || next.version !== version + 1);
  });
  return gap === -1 ? null : `version ${chain[gap]?.version} does not end where the next one begins`;
}

/** Walks through the record's own past and finds each stored body in it, in order. */
function neverWas(chain: readonly Version[], past: readonly PastState[], isOrdered: boolean): string | null {
  let at = 0;
  for (const { op, body, version } of chain) {
    if (op === 'delete' || body === null) continue;
    const wanted = canonical(parsed(body));
    const first = past.findIndex((state) => state.body === wanted);
    if (first === -1) return `the body of version ${version} is none that the record ever had: ${body}`;
    const later = past.findIndex((state, place) => place >= at && state.body === wanted);
    if (later === -1 && isOrdered && isOlder(past[first], past[at])) {
      return `the body of version ${version} was before the version in front of it: ${body}`;
    }
    at = later === -1 ? first : later;
  }
  return null;
}

/** By their own times. */
function isOlder(state: PastState | undefined, than: PastState | undefined): boolean {
  const [a, b] = [state?.updatedAt ?? null, than?.updatedAt ?? null];
  return a !== null && b !== null && a < b;
}

interface CopiedColumn {
  name: string;
  /** From the record to the value; `[]` stands for each element. */
  path: readonly string[];
  type: ColumnType;
}

/** A table as the catalogue of the copy describes it. */
interface CopiedTable {
  name: string;
  path: readonly string[];
  keys: readonly string[];
  /** From the record to the values of its key, as JSON. */
  keyPaths: readonly string[];
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

/** The tables of a resource, its own one first. */
export function tablesIn(db: Database.Database, resource = RESOURCE): CopiedTable[] {
  if (!hasTable(db, '_sync_columns')) return [];
  const rows = db
    .prepare<[string], CatalogueRow>(
      'SELECT * FROM _sync_columns WHERE resource = ? ORDER BY length(table_path), table_name, role, position',
    )
    .all(resource);
  return [...Map.groupBy(rows, (row) => row.table_name)].map(([name, columns]) => ({
    name,
    path: JSON.parse(columns[0]?.table_path ?? '[]'),
    keys: columns.filter(({ role }) => role === 'key').map((column) => column.column_name),
    keyPaths: columns.filter(({ role }) => role === 'key').map((column) => column.source_path),
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
function rowsIn(db: Database.Database, table: CopiedTable): Map<string, unknown[]> {
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
function recordDifferences({ tables, rows, places }: Copy, key: string, body: Fields): Difference[] {
  const [own, ...lists] = tables;
  const row = own === undefined ? undefined : rows.get(own.name)?.get(rowKey(key, []));
  if (own === undefined || row === undefined) return [{ kind: 'missing', key, text: `${key}: there is no such row` }];
  return [
    ...cellDifferences(own, key, body, row),
    ...lists.flatMap((table) =>
      listDifferences(
        table,
        { rows: rows.get(table.name) ?? new Map<string, unknown[]>(), places: places.get(table.name)?.get(key) ?? [] },
        key,
        body,
      ),
    ),
    ...lostLeaves(tables, key, body),
  ];
}

function listDifferences(
  table: CopiedTable,
  { rows, places }: { rows: ReadonlyMap<string, unknown[]>; places: readonly string[] },
  key: string,
  body: Fields,
): Difference[] {
  const wanted = new Map(placesIn(body, table.path).map(({ value, positions }) => [rowKey(key, positions), value]));
  const strange = places.filter((place) => !wanted.has(place));
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
  const known = new Set(
    tables.flatMap(({ keyPaths, columns }) => [...keyPaths, ...columns.map(({ path }) => JSON.stringify(path))]),
  );
  const lost: Difference[] = [];
  const visit = (value: Value, path: readonly string[]): void => {
    if (value === null || known.has(JSON.stringify(path))) return;
    if (isList(value)) value.forEach((each) => visit(each, [...path, '[]']));
    else if (isFields(value)) value.forEach((each, name) => visit(each, [...path, name]));
    else lost.push({ kind: 'no column', key, text: `no column for ${JSON.stringify(path)}` });
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

function hasTable(db: Database.Database, name: string): boolean {
  return db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").get(name) !== undefined;
}

type Agrees = (value: Exclude<Value, null>, cell: unknown) => boolean;

/** Whether a cell of a type holds a value of the service, to the last digit. */
const AGREES: Readonly<Record<ColumnType, Agrees>> = {
  boolean: (value, cell) => typeof value === 'boolean' && Number(cell) === Number(value),
  integer: (value, cell) => value instanceof Digits && decimal(value.text) === decimal(String(cell)),
  double: (value, cell) => value instanceof Digits && typeof cell === 'number' && isWhole(value.text, cell),
  numeric: (value, cell) => value instanceof Digits && decimal(value.text) === decimal(String(cell)),
  date: (value, cell) => value === cell,
  timestamp: (value, cell) => typeof value === 'string' && utcText(value) === cell,
  text: (value, cell) => {
    if (value instanceof Digits) return typeof cell === 'string' && decimal(value.text) === decimal(cell);
    return (typeof value === 'string' ? storable(value) : written(value)) === cell;
  },
  json: (value, cell) => typeof cell === 'string' && canonicalStored(value) === canonical(parsed(cell)),
};

/** Null where the cell of a column is what the record says, else what it should be. */
function cellFault(type: ColumnType, value: Value, cell: unknown): string | null {
  // What is inside a list or an object stands in columns and rows of its own.
  const own = type !== 'json' && (isList(value) || isFields(value)) ? null : value;
  const isRight = own === null ? cell === null : cell !== null && AGREES[type](own, cell);
  return isRight ? null : `is ${shown(cell)}, should be ${own === null ? 'null' : canonical(own)} as ${type}`;
}

function shown(cell: unknown): string {
  return typeof cell === 'bigint' ? String(cell) : JSON.stringify(cell);
}

/** True where the double, written with as many digits as the source has, is the source. */
function isWhole(source: string, cell: number): boolean {
  const wanted = decimal(source);
  const digits = Math.min(Math.max(wanted.replace('-', '').indexOf('e'), 1), 100);
  return Number(source) === cell && (wanted === decimal(String(cell)) || wanted === decimal(cell.toPrecision(digits)));
}

const MOMENT = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[-+]\d\d:?\d\d)?)?$/;

/** A moment in UTC, milliseconds only where there are any; undefined for what is none. */
function utcText(text: string): string | undefined {
  const [, day, minute = '00:00', second = '00', fraction = '', zone = 'Z'] = MOMENT.exec(text) ?? [];
  const at = Date.parse(`${day}T${minute}:${second}.${fraction.padEnd(3, '0').slice(0, 3)}${zone}`);
  return Number.isNaN(at)
    ? undefined
    : new Date(at).toISOString().replace('T', ' ').replace('Z', '').replace('.000', '');
}
