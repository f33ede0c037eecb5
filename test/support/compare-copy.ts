import type Database from 'better-sqlite3';
import { canonicalJson, copiedColumn, expectedRow, placesIn, type CopiedTable, type Json } from './expected-rows.ts';

interface ColumnEntry {
  table_name: string;
  column_name: string;
  table_path: string;
  role: string;
  source_path: string;
  type: string;
}

interface Version {
  id: string;
  body: string;
}

const MOST_SHOWN = 20;

/** The records of a service, as JSON texts by the texts of their keys. */
export interface ServiceRecords {
  resources(): readonly string[];
  list(resource: string): Iterable<{ id: string; text: string }>;
}

interface Comparison {
  /** All of the service's where absent. */
  resources?: readonly string[];
  /** False where the profile keeps no bodies. */
  bodies?: boolean;
}

/**
 * Everything in which the warehouse is not the service, as sentences: rows and child rows by their content, bodies of
 * the open versions, and rows that are too many or too few. Reads the service's store and the catalogue of columns, and
 * uses none of the code that made the rows.
 */
export function differences(db: Database.Database, store: ServiceRecords, comparison: Comparison = {}): string[] {
  const { resources = store.resources(), bodies = true } = comparison;
  const found = resources.flatMap((resource) => resourceDifferences(db, store, resource, bodies));
  return found.length > MOST_SHOWN ? [...found.slice(0, MOST_SHOWN), `... ${found.length} in all`] : found;
}

function resourceDifferences(
  db: Database.Database,
  store: ServiceRecords,
  resource: string,
  bodies: boolean,
): string[] {
  const tables = tablesOf(db, resource);
  if (tables.length === 0) return [`${resource}: no table`];
  const records = new Map<string, Json>();
  for (const { id, text } of store.list(resource)) records.set(id, JSON.parse(text));
  return [
    ...tables.flatMap((table) => tableDifferences(db, table, records)),
    ...(bodies ? [...bodyDifferences(db, resource, records), ...strayRows(db, resource)] : []),
    ...unseenLeaves(tables, records),
  ];
}

function tableDifferences(db: Database.Database, table: ComparedTable, records: ReadonlyMap<string, Json>): string[] {
  const wanted = new Map<string, string>();
  for (const [id, record] of records) {
    for (const place of placesIn(record, table.path)) {
      const key = JSON.stringify([id, ...place.positions].map(String));
      wanted.set(key, expectedRow(table, place.value));
    }
  }
  const names = [...table.keys, ...table.columns.map((column) => column.name)];
  const live = table.path.length === 0 ? ' WHERE _deleted_at IS NULL' : '';
  const text = `SELECT ${names.map((name) => `"${name.replaceAll('"', '""')}"`).join(',')} FROM "${table.name}"${live}`;
  const found = new Map<string, string>();
  for (const row of db.prepare<[], unknown[]>(text).raw().all()) {
    // An id that is a number is one in the table too.
    const key = JSON.stringify(row.slice(0, table.keys.length).map(String));
    const cells = row.slice(table.keys.length).map((cell, index) => table.columns[index]?.read(cell));
    found.set(key, JSON.stringify(cells));
  }
  return mapDifferences(table.name, wanted, found);
}

function bodyDifferences(db: Database.Database, resource: string, records: ReadonlyMap<string, Json>): string[] {
  const open = db
    .prepare<[string], Version>(
      "SELECT id, body FROM _sync_versions WHERE resource = ? AND valid_to IS NULL AND op = 'upsert'",
    )
    .all(resource);
  const found = open.map(({ id, body }): [string, Json] => [id, JSON.parse(body)]);
  // Most bodies are as they were sent; only for the others does the order of their keys have to be looked away from.
  const asSent = new Set(found.filter(([id, body]) => isAsSent(body, records.get(id))).map(([id]) => id));
  const textOf = ([id, body]: [string, Json]): [string, string] => [
    id,
    asSent.has(id) ? 'as sent' : canonicalJson(body),
  ];
  const wanted = new Map([...records].map(textOf));
  const bodies = new Map(found.map(textOf));
  return [
    ...mapDifferences(`versions of ${resource}`, wanted, bodies),
    ...(open.length === bodies.size ? [] : [`${resource}: ${open.length} open versions of ${bodies.size} records`]),
  ];
}

function isAsSent(body: Json, record: Json | undefined): boolean {
  return record !== undefined && JSON.stringify(body) === JSON.stringify(record);
}

/** Rows whose version and hash no stored version has: they were not committed together. */
export function strayRows(db: Database.Database, resource: string): string[] {
  const key = tablesOf(db, resource)[0]?.keys[0] ?? 'id';
  return db
    .prepare<[string], string>(
      `SELECT t."${key}" FROM "${resource}" t LEFT JOIN _sync_versions v ON v.resource = ? AND v.id = t."${key}"
       AND v.version = t._version AND v.hash = t._hash AND v.valid_to IS NULL WHERE v.id IS NULL LIMIT 10`,
    )
    .pluck()
    .all(resource)
    .map((id) => `${resource} ${id}: its version and hash are not those of a stored version`);
}

/**
 * What must hold of deleted rows and of history at every moment: no child without a live parent, versions in one piece
 * (each ends where the next begins, only the last is open), the last one a delete exactly where the row is deleted.
 */
export function deleteFaults(db: Database.Database, resource: string): string[] {
  const [own, ...children] = tablesOf(db, resource);
  if (own === undefined) return [];
  const key = own.keys[0] ?? 'id';
  const orphans = children.map(
    (child) =>
      `SELECT '${child.name} ' || c."${child.keys[0]}" || ': no live parent' FROM "${child.name}" c
       LEFT JOIN "${own.name}" p ON p."${key}" = c."${child.keys[0]}" AND p._deleted_at IS NULL WHERE p."${key}" IS NULL`,
  );
  const gaps = `SELECT 'version ' || id || ' ' || version || ': ends at ' || coalesce(valid_to, 'never') || ', next at ' || next FROM
    (SELECT *, lead(valid_from) OVER (PARTITION BY id ORDER BY version) AS next FROM _sync_versions WHERE resource = '${resource}')
    WHERE next IS NOT valid_to`;
  const last = `SELECT 'row ' || r."${key}" || ': ' || v.op FROM "${own.name}" r JOIN _sync_versions v
    ON v.resource = '${resource}' AND v.id = r."${key}" AND v.valid_to IS NULL
    WHERE (v.op = 'delete') <> (r._deleted_at IS NOT NULL) OR v.version <> r._version`;
  return [...orphans, gaps, last].flatMap((query) => db.prepare<[], string>(`${query} LIMIT 5`).pluck().all());
}

/** Values of the service for which the warehouse has no column at all. */
function unseenLeaves(tables: readonly ComparedTable[], records: ReadonlyMap<string, Json>): string[] {
  const known = new Set(
    tables.flatMap(({ keyPaths, columns }) => [...keyPaths, ...columns.map(({ path }) => JSON.stringify(path))]),
  );
  const unseen = new Set<string>();
  // A path as its JSON without the end: it grows by a part with each step.
  const visit = (value: Json, path: string): void => {
    if (value === null || known.has(`${path}]`)) return;
    const begun = path === '[' ? path : `${path},`;
    if (Array.isArray(value)) value.forEach((each) => visit(each, `${begun}"[]"`));
    else if (typeof value === 'object')
      Object.entries(value).forEach(([key, each]) => visit(each, begun + JSON.stringify(key)));
    else unseen.add(`${path}]`);
  };
  for (const record of records.values()) visit(record, '[');
  return [...unseen].map((path) => `${tables[0]?.name}: no column for ${JSON.parse(path).join('.')}`);
}

function mapDifferences(
  name: string,
  wanted: ReadonlyMap<string, string>,
  found: ReadonlyMap<string, string>,
): string[] {
  const missing = [...wanted.keys()].filter((key) => !found.has(key)).map((key) => `${name} ${key}: missing`);
  const extra = [...found.keys()].filter((key) => !wanted.has(key)).map((key) => `${name} ${key}: too many`);
  const other = [...wanted]
    .filter(([key, row]) => found.has(key) && found.get(key) !== row)
    .map(([key, row]) => `${name} ${key}: is ${found.get(key)}, should be ${row}`);
  return [...missing, ...extra, ...other];
}

interface ComparedTable extends CopiedTable {
  /** Source paths of the key's columns, as the catalogue writes them. */
  keyPaths: string[];
}

function tablesOf(db: Database.Database, resource: string): ComparedTable[] {
  const entries = db
    .prepare<[string], ColumnEntry>(
      'SELECT * FROM _sync_columns WHERE resource = ? ORDER BY length(table_path), table_name, role, position',
    )
    .all(resource);
  return [...Map.groupBy(entries, (entry) => entry.table_name)].map(([name, columns]) => ({
    name,
    path: JSON.parse(columns[0]?.table_path ?? '[]'),
    keys: columns.filter(({ role }) => role === 'key').map((column) => column.column_name),
    keyPaths: columns.filter(({ role }) => role === 'key').map(({ source_path }) => source_path),
    columns: columns
      .filter(({ role }) => role === 'source')
      .map(({ column_name, source_path, type }) => copiedColumn(column_name, JSON.parse(source_path), type)),
  }));
}
