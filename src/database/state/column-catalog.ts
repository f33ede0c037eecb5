import { type CompiledQuery, type Kysely, sql } from 'kysely';
import { z } from 'zod';
import { ConfigError } from '../../model/errors.ts';
import type { Column, ResourceShape, ShapeChange, TableShape } from '../../model/table.ts';
import { COLUMN_TYPES } from '../../model/vocabulary.ts';
import type { ColumnRow, OwnTables } from '../own-tables.ts';
import { columnComment, keyComment, NOTHING_SAID, type SaidOfFields } from './column-comments.ts';
import { inParts } from './in-parts.ts';
import type { Warehouse } from '../warehouse.ts';

const pathSchema = z.array(z.string());

/**
 * The tables and columns of a resource as remembered, in their order; null if it has none yet. Throws
 * `ConfigError('state_invalid')` if that cannot be trusted, or a table that is remembered is not there.
 */
export async function readTables(warehouse: Warehouse, resource: string): Promise<ResourceShape | null> {
  const rows = await columnRows(warehouse.own).where('resource', '=', resource).execute();
  const shape = rows.length === 0 ? null : shapeOf(resource, rows);
  const names = await warehouse.rows.tableNames();
  const gone = shape?.tables.find(({ name }) => !names.has(name));
  if (gone === undefined) return shape;
  throw new ConfigError('state_invalid', `the table ${gone.name} is no longer in the warehouse`, {
    hint: `restore it, or copy the resource anew: content-sync backfill ${resource} --restart`,
  });
}

/** The tables and columns of all resources that have some, in the order of their names. Throws as `readTables` does. */
export async function readShapes(own: Kysely<OwnTables>): Promise<ResourceShape[]> {
  return shapesOf(await columnRows(own).execute());
}

function shapesOf(rows: readonly ColumnRow[]): ResourceShape[] {
  const byResource = Map.groupBy(rows, ({ resource }) => resource);
  return [...byResource].map(([resource, own]) => shapeOf(resource, own)).toSorted(byName);
}

/** Resources that have tables and are none of `copied`, in the order of their names. */
export async function resourcesNotCopied(own: Kysely<OwnTables>, copied: readonly string[]): Promise<string[]> {
  const rows = await own.selectFrom('_sync_columns').select('resource').distinct().orderBy('resource').execute();
  return rows.map(({ resource }) => resource).filter((resource) => !copied.includes(resource));
}

/** All that is remembered of tables and columns; what is said of columns by `commentKey`. */
export interface Catalogue {
  shapes: readonly ResourceShape[];
  comments: ReadonlyMap<string, string | null>;
}

/** Throws as `readTables` does. */
export async function readCatalogue(own: Kysely<OwnTables>): Promise<Catalogue> {
  const rows = await columnRows(own).execute();
  const comments = rows.map((row) => [commentKey(row.table_name, row.column_name), row.comment] as const);
  return { shapes: shapesOf(rows), comments: new Map(comments) };
}

function byName(a: ResourceShape, b: ResourceShape): number {
  return a.resource < b.resource ? -1 : 1;
}

function columnRows(own: Kysely<OwnTables>) {
  return own.selectFrom('_sync_columns').selectAll().orderBy('table_name').orderBy('role').orderBy('position');
}

function shapeOf(resource: string, rows: readonly ColumnRow[]): ResourceShape {
  const tables = [...Map.groupBy(rows, (row) => row.table_name).values()].map(tableOf);
  // The resource's own table first, parents before their children.
  tables.sort((a, b) => a.path.length - b.path.length || (a.name < b.name ? -1 : 1));
  return { resource, tables };
}

/** The statements that remember tables new since `before` and the columns that were added or widened. */
export function rememberShape(
  own: Kysely<OwnTables>,
  before: ResourceShape | null,
  after: ResourceShape,
  changes: readonly ShapeChange[],
  at: string,
  said: SaidOfFields = NOTHING_SAID,
  runId: string | null = null,
): CompiledQuery[] {
  const known = new Set(before?.tables.map((table) => table.name));
  const fresh = after.tables.filter((table) => !known.has(table.name));
  const keys = fresh.flatMap((table) => keyRows(after.resource, table, at, said));
  const columns = changes.map((change) => columnRow(after, change, at, said));
  const upserts = saveColumns(own, [...keys, ...columns]);
  return [...upserts, ...schemaChanges(own, after.resource, changes, at, runId)];
}

/** The statements that note changes in the log that people read. */
function schemaChanges(
  own: Kysely<OwnTables>,
  resource: string,
  changes: readonly ShapeChange[],
  at: string,
  runId: string | null,
): CompiledQuery[] {
  const rows = changes.map(({ table, column, from }) => ({
    changed_at: at,
    resource,
    table_name: table,
    column_name: column.name,
    from_type: from,
    to_type: column.type,
    run_id: runId,
    kind: null,
    renamed_to: null,
  }));
  return inParts(rows, ROWS_PER_STATEMENT).map((part) => own.insertInto('_sync_schema_changes').values(part).compile());
}

function tableOf(rows: ColumnRow[]): TableShape {
  const [first] = rows;
  if (first === undefined) throw new ConfigError('state_invalid', 'a table without columns in _sync_columns');
  return {
    name: first.table_name,
    path: pathOf(first, first.table_path),
    key: rows.filter((row) => row.role === 'key').map((row) => row.column_name),
    columns: columnsOf(rows),
  };
}

function columnsOf(rows: readonly ColumnRow[]): Column[] {
  const found = rows.filter((row) => row.role === 'source');
  return found.map((row) => ({ name: row.column_name, path: pathOf(row, row.source_path), type: typeOf(row) }));
}

function pathOf(row: ColumnRow, text: string): string[] {
  try {
    return pathSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw damaged(row, cause);
  }
}

function typeOf(row: ColumnRow): Column['type'] {
  if (COLUMN_TYPES.includes(row.type)) return row.type;
  throw damaged(row);
}

function damaged(row: ColumnRow, cause?: unknown): ConfigError {
  return new ConfigError('state_invalid', `_sync_columns is damaged at ${row.table_name}.${row.column_name}`, {
    hint: `start it over: content-sync backfill ${row.resource} --restart`,
    cause,
  });
}

function keyRows(resource: string, table: TableShape, at: string, said: SaidOfFields): ColumnRow[] {
  return table.key.map((name, position) => ({
    table_name: table.name,
    column_name: name,
    resource,
    table_path: JSON.stringify(table.path),
    position,
    role: 'key',
    source_path: '[]',
    type: position === 0 ? 'text' : 'integer',
    first_seen: at,
    comment: keyComment(resource, position, said),
    example: null,
  }));
}

function columnRow(
  shape: ResourceShape,
  { table: name, column }: ShapeChange,
  at: string,
  said: SaidOfFields,
): ColumnRow {
  const table = shape.tables.find((candidate) => candidate.name === name);
  const position = table?.columns.findIndex((candidate) => candidate.name === column.name) ?? -1;
  return {
    table_name: name,
    column_name: column.name,
    resource: shape.resource,
    table_path: JSON.stringify(table?.path ?? []),
    position,
    role: 'source',
    source_path: JSON.stringify(column.path),
    type: column.type,
    first_seen: at,
    comment: columnComment(shape.resource, table?.path ?? [], column, said),
    example: null,
  };
}

export function commentKey(table: string, column: string): string {
  return JSON.stringify([table, column]);
}

/** Hundreds of columns may come with one record. Eleven values each are below every database's limit of bound values. */
export const ROWS_PER_STATEMENT = 500;

/** The statements that add columns to the catalogue; those that are in it get the type that they have now. */
function saveColumns(own: Kysely<OwnTables>, rows: readonly ColumnRow[]): CompiledQuery[] {
  return inParts(distinct(rows), ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_columns')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['table_name', 'column_name']).doUpdateSet((is) => ({ type: is.ref('excluded.type') })),
      )
      .compile(),
  );
}

/** No statement may write a row twice: the first one comes, with the type of the last one. */
function distinct(rows: readonly ColumnRow[]): ColumnRow[] {
  const byName = new Map<string, ColumnRow>();
  for (const row of rows) {
    const name = JSON.stringify([row.table_name, row.column_name]);
    byName.set(name, { ...(byName.get(name) ?? row), type: row.type });
  }
  return [...byName.values()];
}

/** What is now said of a column. */
interface SaidOfColumn {
  table: string;
  column: string;
  text: string;
}

/** The statements that change the comments of columns in the catalogue. */
export function saveComments(own: Kysely<OwnTables>, said: readonly SaidOfColumn[]): CompiledQuery[] {
  return inParts(said, ROWS_PER_STATEMENT).map((part) => {
    const rows = part.map(({ table, column, text }) => sql`(${table}, ${column}, ${text})`);
    // Both databases name the columns of bare rows so.
    const values = sql<Record<'column1' | 'column2' | 'column3', string>>`(VALUES ${sql.join(rows)})`;
    return own
      .updateTable('_sync_columns')
      .from(values.as('said'))
      .set((is) => ({ comment: is.ref('said.column3') }))
      .whereRef('_sync_columns.table_name', '=', 'said.column1')
      .whereRef('_sync_columns.column_name', '=', 'said.column2')
      .compile();
  });
}

/** The statements that remember tables which have taken the place of others; only what differs goes into the log. */
export function replaceShape(
  own: Kysely<OwnTables>,
  before: ResourceShape,
  after: ResourceShape,
  at: string,
  said: SaidOfFields,
  runId: string,
): CompiledQuery[] {
  const types = new Map(
    before.tables.flatMap(({ name, columns }) => columns.map((column) => [commentKey(name, column.name), column.type])),
  );
  const all = after.tables.flatMap(({ name: table, columns }) =>
    columns.map((column): ShapeChange => ({ table, column, from: types.get(commentKey(table, column.name)) ?? null })),
  );
  const rows = [
    ...after.tables.flatMap((table) => keyRows(after.resource, table, at, said)),
    ...all.map((change) => columnRow(after, change, at, said)),
  ];
  const changed = all.filter(({ column, from }) => from !== column.type);
  return [
    own.deleteFrom('_sync_columns').where('resource', '=', after.resource).compile(),
    ...saveColumns(own, rows),
    ...schemaChanges(own, after.resource, changed, at, runId),
  ];
}
