// The catalog: what content-sync has created in the warehouse. `_sync_columns` has every table and column with its path in
// the records, `_sync_views` every managed view, and `_sync_schema_changes` is the log of changes.
//
// A column that a record needs is added if the catalog does not have it, and analysts read in it what a column holds.
// `_sync_growth` counts the changes of tables and views, so that two processes do not change them at the same time.
import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import { fieldPathText } from '../../model/body-path.ts';
import { ConfigError } from '../../model/errors.ts';
import type { Column, ResourceShape, ShapeChange, SourcePath, TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { COLUMN_TYPES } from '../../model/vocabulary.ts';
import { OVERFLOW, pathText } from '../../rows/columns/column-name.ts';
import type { ColumnRow, OwnTables, TimestampText, ViewColumnRow, ViewRow } from '../own-tables.ts';
import type { ColumnComment, Warehouse } from '../warehouse.ts';
import { inParts, upsertRows } from './in-parts.ts';

const pathSchema = z.array(z.string());

/**
 * Returns the tables and columns of a resource; null if it has none yet. Throws `ConfigError('warehouse_corrupt')` if the
 * catalog is damaged, or one of the tables does not exist.
 */
export async function readTables(warehouse: Warehouse, resource: string): Promise<ResourceShape | null> {
  const rows = await columnRows(warehouse.own).where('resource', '=', resource).execute();
  const shape = rows.length === 0 ? null : toShape(resource, rows);
  const existing = await warehouse.rows.tableNames();
  const missing = shape?.tables.find(({ name }) => !existing.has(name));
  if (missing === undefined) return shape;
  throw new ConfigError('warehouse_corrupt', `the table ${missing.name} is no longer in the warehouse`, {
    hint: `restore it, or copy the resource anew: content-sync backfill ${resource} --restart`,
  });
}

/** Returns the tables and columns of all resources, sorted by name. Throws as `readTables` does. */
export async function readShapes(own: Kysely<OwnTables>): Promise<ResourceShape[]> {
  const byResource = Map.groupBy(await columnRows(own).execute(), ({ resource }) => resource);
  const shapes = [...byResource].map(([resource, rows]) => toShape(resource, rows));
  return shapes.toSorted((a, b) => (a.resource < b.resource ? -1 : 1));
}

/** Returns the resources that have tables but are not in `copied`, sorted by name. */
export async function resourcesNotCopied(own: Kysely<OwnTables>, copied: readonly string[]): Promise<string[]> {
  const rows = await own.selectFrom('_sync_columns').select('resource').distinct().orderBy('resource').execute();
  return rows.map(({ resource }) => resource).filter((resource) => !copied.includes(resource));
}

/** Returns the stored comments of all columns, by `columnKey`. */
export async function readComments(own: Kysely<OwnTables>): Promise<Map<string, string | null>> {
  const rows = await own.selectFrom('_sync_columns').select(['table_name', 'column_name', 'comment']).execute();
  return new Map(rows.map(({ table_name, column_name, comment }) => [columnKey(table_name, column_name), comment]));
}

function columnRows(own: Kysely<OwnTables>) {
  return own.selectFrom('_sync_columns').selectAll().orderBy('table_name').orderBy('role').orderBy('position');
}

function toShape(resource: string, rows: readonly ColumnRow[]): ResourceShape {
  const tables = [...Map.groupBy(rows, (row) => row.table_name).values()].map(toTable);
  // The table of the resource first, parents before their children.
  tables.sort((a, b) => a.path.length - b.path.length || (a.name < b.name ? -1 : 1));
  return { resource, tables };
}

/** The run that has changed tables, and what the profile says about the fields. */
interface ShapeRecording {
  at: string;
  runId: string;
  descriptions: FieldDescriptions;
}

/** Returns the statements that store tables added since `before`, and columns that were added or widened. */
export function rememberShape(
  own: Kysely<OwnTables>,
  before: ResourceShape | null,
  after: ResourceShape,
  changes: readonly ShapeChange[],
  { at, runId, descriptions }: ShapeRecording,
): CompiledQuery[] {
  const { resource, tables } = after;
  const comments = new Map(
    describeColumns(after, descriptions).map(({ table, column, comment }) => [columnKey(table, column ?? ''), comment]),
  );
  const existing = new Set(before?.tables.map((table) => table.name));
  const changed = new Set(changes.map(({ table, column }) => columnKey(table, column.name)));
  const isStored = ({ role, table_name, column_name }: NewColumn): boolean =>
    role === 'key' ? existing.has(table_name) : !changed.has(columnKey(table_name, column_name));
  const added = tables.flatMap(toNewColumns).filter((column) => !isStored(column));
  const rows = Array.from(added, (row): ColumnRow => {
    const comment = comments.get(columnKey(row.table_name, row.column_name)) ?? null;
    return Object.assign(row, { resource, first_seen: at, comment });
  });
  const common = { changed_at: at, resource, run_id: runId, kind: null, renamed_to: null };
  const logged = changes.flatMap(
    ({ table: table_name, column: { name: column_name, type: to_type }, from: from_type }) =>
      from_type === to_type ? [] : [{ ...common, table_name, column_name, from_type, to_type }],
  );
  return [
    ...upsertRows(own, '_sync_columns', rows, ['table_name', 'column_name'], ['type']),
    ...inParts(logged).map((part) => own.insertInto('_sync_schema_changes').values(part).compile()),
  ];
}

function toTable(rows: ColumnRow[]): TableShape {
  const [first] = rows;
  if (first === undefined) throw new ConfigError('warehouse_corrupt', 'a table without columns in _sync_columns');
  return {
    name: first.table_name,
    path: parsePath(first, first.table_path),
    key: rows.filter((row) => row.role === 'key').map((row) => row.column_name),
    columns: rows
      .filter((row) => row.role === 'source')
      .map((row) => ({ name: row.column_name, path: parsePath(row, row.source_path), type: parseType(row) })),
  };
}

function parsePath(row: ColumnRow, text: string): string[] {
  try {
    return pathSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw catalogDamaged(row, cause);
  }
}

function parseType(row: ColumnRow): Column['type'] {
  if (COLUMN_TYPES.includes(row.type)) return row.type;
  throw catalogDamaged(row);
}

function catalogDamaged(row: ColumnRow, cause?: unknown): ConfigError {
  return new ConfigError('warehouse_corrupt', `_sync_columns is damaged at ${row.table_name}.${row.column_name}`, {
    hint: `start it over: content-sync backfill ${row.resource} --restart`,
    cause,
  });
}

/** A row of `_sync_columns` without the values that `rememberShape` adds. */
type NewColumn = Omit<ColumnRow, 'resource' | 'first_seen' | 'comment'>;

function toNewColumns({ name, path, key, columns }: TableShape): NewColumn[] {
  const table = { table_name: name, table_path: JSON.stringify(path) };
  return [
    ...key.map((column_name, position): NewColumn => {
      const type = position === 0 ? 'text' : 'integer';
      return { ...table, column_name, position, role: 'key', source_path: '[]', type };
    }),
    ...columns.map((column, position): NewColumn => {
      const source_path = JSON.stringify(column.path);
      return { ...table, column_name: column.name, position, role: 'source', source_path, type: column.type };
    }),
  ];
}

export function columnKey(table: string, column: string): string {
  return JSON.stringify([table, column]);
}

export function saveComments(
  own: Kysely<OwnTables>,
  descriptions: readonly { table: string; column: string; text: string }[],
): CompiledQuery[] {
  return descriptions.map(({ table, column, text }) => {
    const columns = own.updateTable('_sync_columns').set({ comment: text });
    return columns.where('table_name', '=', table).where('column_name', '=', column).compile();
  });
}

/** Returns the statements that store tables which replace others; only differences are added to the log. */
export function replaceShape(
  own: Kysely<OwnTables>,
  before: ResourceShape,
  after: ResourceShape,
  recording: ShapeRecording,
): CompiledQuery[] {
  const types = new Map(
    before.tables.flatMap(({ name, columns }) => columns.map((column) => [columnKey(name, column.name), column.type])),
  );
  const all = after.tables.flatMap(({ name: table, columns }) =>
    columns.map((column): ShapeChange => ({ table, column, from: types.get(columnKey(table, column.name)) ?? null })),
  );
  return [
    own.deleteFrom('_sync_columns').where('resource', '=', after.resource).compile(),
    ...rememberShape(own, null, after, all, recording),
  ];
}

/** What a profile says about a resource and its fields. */
export interface FieldDescriptions {
  id: string | readonly string[];
  description?: string | undefined;
  fields: Readonly<Record<string, { description?: string | undefined; unit?: string | undefined }>>;
}

/**
 * Writes the comments of a resource's tables and columns: first the text of the profile, then what each holds, such as
 * `Price without tax. Unit: EUR. Field price of the content record.`
 */
export function describeColumns({ resource, tables }: ResourceShape, descriptions: FieldDescriptions): ColumnComment[] {
  const { id, description } = descriptions;
  return tables.flatMap(({ name: table, path, key, columns }): ColumnComment[] => {
    const comment = (column: string | null, text: string | undefined, base: string): ColumnComment => {
      const full = text === undefined ? base : `${asSentence(text)} ${base}`;
      return { table, column, base: visibleText(base), comment: visibleText(full) };
    };
    const ofTable =
      path.length === 0
        ? comment(null, description, `The ${resource} records of the service, one a row.`)
        : comment(
            null,
            describePath(path, descriptions),
            `Lists within the ${resource} records of the service, one element a row.`,
          );
    const ofKey = key.map((column, at) => {
      if (at > 0) return comment(column, undefined, 'Place in the list, from 0.');
      const text = typeof id === 'string' ? describeField(fieldPathText(id), descriptions) : undefined;
      return comment(column, text, `The key of the ${resource} record.`);
    });
    const ofColumns = columns.map((column) =>
      comment(column.name, describePath(column.path, descriptions), columnBase(resource, path, column)),
    );
    return [ofTable, ...ofKey, ...ofColumns];
  });
}

/** Says which field a column holds, in words that do not depend on the profile's descriptions. */
function columnBase(resource: string, tablePath: SourcePath, { path }: Column): string {
  const within = path.slice(tablePath.length);
  const list = tablePath.length === 0 ? '' : `each element of ${pathText(tablePath)} of `;
  if (within.length === 0) return `${list.replace(/^each/, 'Each')}the ${resource} record.`;
  if (within[0] === OVERFLOW) return `Fields of ${list}the ${resource} record for which there is no column left.`;
  return `Field ${pathText(within)} of ${list}the ${resource} record.`;
}

function describePath(path: SourcePath, descriptions: FieldDescriptions): string | undefined {
  return path.at(-1) === OVERFLOW ? undefined : describeField(pathText(path), descriptions);
}

function describeField(field: string, { fields }: FieldDescriptions): string | undefined {
  const { description, unit } = (Object.hasOwn(fields, field) ? fields[field] : undefined) ?? {};
  const parts = [description, unit === undefined ? undefined : `Unit: ${unit}`].flatMap((part) => part ?? []);
  return parts.length === 0 ? undefined : parts.map(asSentence).join(' ');
}

function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

export interface MadeView extends Omit<ViewRow, 'made_at'> {
  columns: readonly Omit<ViewColumnRow, 'view_name' | 'position' | 'first_seen'>[];
}

export interface StoredView {
  view: ViewRow;
  columns: readonly ViewColumnRow[];
}

/** The columns of `_sync_view_columns` that a changed view updates. */
const REPLACED = ['position', 'type', 'source_path', 'description', 'refers_to', 'is_computed'] as const;

export async function readViews(own: Kysely<OwnTables>): Promise<Map<string, StoredView>> {
  const views = await own.selectFrom('_sync_views').selectAll().orderBy('view_name').execute();
  // Not `selectAll`, because version 0.1 has created a column that is no longer used.
  const columns = await own
    .selectFrom('_sync_view_columns')
    .select(['view_name', 'column_name', 'first_seen', ...REPLACED])
    .orderBy('position')
    .execute();
  const byView = Map.groupBy(columns, ({ view_name }) => view_name);
  return new Map(views.map((view) => [view.view_name, { view, columns: byView.get(view.view_name) ?? [] }]));
}

/** Returns how often tables and views have changed. Read it before the state from which a change is planned. */
export async function readGrowths(own: Kysely<OwnTables>): Promise<number> {
  const { growths } = await own.selectFrom('_sync_growth').select('growths').executeTakeFirstOrThrow();
  return growths;
}

/**
 * Returns the statement that increments this count. It changes no row if another process has changed tables or views since
 * the count was `growths`: then the caller's transaction must fail (`growth_outdated`).
 */
export function claimGrowth(own: Kysely<OwnTables>, growths: number): CompiledQuery {
  return own
    .updateTable('_sync_growth')
    .set({ growths: growths + 1 })
    .where('growths', '=', growths)
    .compile();
}

/** Returns the statements that store new views; a column that a view already had keeps its `first_seen`. */
export function rememberViews(own: Kysely<OwnTables>, made: readonly MadeView[], at: TimestampText): CompiledQuery[] {
  const views = made.map(({ columns: _columns, ...view }) => ({ ...view, made_at: at }));
  const columns = made.flatMap(({ view_name, columns: all }) =>
    all.map((column, position) => ({ view_name, position, first_seen: at, ...column })),
  );
  return [
    ...upsertRows(own, '_sync_views', views, ['view_name']),
    ...upsertRows(own, '_sync_view_columns', columns, ['view_name', 'column_name'], REPLACED),
  ];
}

/** Returns the statements that give a stored view another name. */
export function renameView(own: Kysely<OwnTables>, former: string, name: string): CompiledQuery[] {
  return (['_sync_views', '_sync_view_columns'] as const).map((table) =>
    own.updateTable(table).set({ view_name: name }).where('view_name', '=', former).compile(),
  );
}

/** Returns the statements after which the next change of tables creates all views again. */
export function forgetViews(own: Kysely<OwnTables>): CompiledQuery[] {
  const growth = own.updateTable('_sync_growth').set(({ eb }) => ({ growths: eb('growths', '+', 1) }));
  return [own.updateTable('_sync_views').set({ query: '' }).compile(), growth.compile()];
}

export async function viewColumns(own: Kysely<OwnTables>): Promise<Map<string, string[]>> {
  const views = await readViews(own);
  return new Map([...views].map(([name, { columns }]) => [name, columns.map(({ column_name }) => column_name)]));
}
