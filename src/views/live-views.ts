// The views of live rows, `<table>_live`, and of the files of records, `<resource>_files` and `<resource>_files_live`.
import type { Column, TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { columnPathOf, pathText } from '../rows/columns/column-name.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';
import {
  columnWithoutSource,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/** `<table>_live` for each table and child table: the live rows, with the source's columns. */
export function liveViews(model: ViewModel): View[] {
  return model.resources.flatMap((resource) =>
    resource.tables.map((table) => ({
      name: `${table.name}_live`,
      resource: resource.resource,
      description: describeTable(resource, table),
      columns: liveColumns(model, resource, table),
      from: fromClause(model, resource, table),
    })),
  );
}

function describeTable({ resource, profile }: ViewedResource, { path }: TableShape): string {
  const list = pathText(path);
  if (path.length === 0)
    return profile.description ?? `The ${resource} records of the service that are not deleted, one a row.`;
  const text = `Lists ${visibleText(list)} within the live ${resource} records, one element a row.`;
  return profile.fields[list]?.description ?? text;
}

/** The alias of the table that a view shows. */
const ROW = 'r';
/** The alias of the parent's table. It is joined by its key, so queries without its columns do not read it. */
const PARENT = 'p';

function liveColumns(model: ViewModel, resource: ViewedResource, table: TableShape): ViewColumn[] {
  const { dialect } = model;
  const comments = resource.comments.get(table.name);
  const column = (stored: string, type: ViewColumn['type'], source: string | null, alias = ROW): ViewColumn => ({
    name: stored,
    type,
    sql: `${alias}.${dialect.id(stored)}`,
    description: comments?.get(stored) ?? null,
    source,
    references: findReference(model, table, stored),
  });
  const isMain = table.path.length === 0;
  const keys = table.key.map((name, at) => column(name, at === 0 ? 'text' : 'integer', null));
  const stamp = column('_synced_at', 'timestamp', null, isMain ? ROW : PARENT);
  const sources = table.columns.map(({ name, type, path }) => column(name, type, visibleText(pathText(path))));
  const computed = isMain ? [...publishedColumn(model, resource), ...finalColumn(model, resource, `${ROW}.`)] : [];
  return [...keys, { ...stamp, description: SYNCED_AT }, ...sources, ...computed];
}

const SYNCED_AT = 'When this version of the record was requested, UTC.';

function findReference({ relations, resources }: ViewModel, table: TableShape, name: string): string | null {
  const relation = relations.find(({ from }) => from.table.name === table.name && from.column === name);
  if (relation !== undefined) return `${relation.to.table.name}.${relation.to.column}`;
  if (table.path.length === 0 || table.key[0] !== name) return null;
  const main = resources.find(({ tables }) => tables.some((each) => each.name === table.name))?.tables[0];
  return main === undefined ? null : `${main.name}.${main.key[0] ?? ''}`;
}

/** Only the main table needs a condition: a deleted record has no child rows. */
function fromClause({ dialect }: ViewModel, { tables }: ViewedResource, table: TableShape): string {
  const [main] = tables;
  const from = ` FROM ${dialect.id(table.name)} AS ${ROW}`;
  if (main === undefined || main === table) return `${from} WHERE ${ROW}.${dialect.id('_deleted_at')} IS NULL`;
  const [parentKey = '', childKey = ''] = [main.key[0], table.key[0]];
  return `${from} LEFT JOIN ${dialect.id(main.name)} AS ${PARENT} ON ${PARENT}.${dialect.id(parentKey)} = ${ROW}.${dialect.id(childKey)}`;
}

/** The column with the state of publishing; null before its first value, or if the profile names no field. */
export function stateColumn({ profile, tables }: ViewedResource): Column | null {
  const path = profile.state === null ? null : columnPathOf(profile.state.field);
  if (path === null) return null;
  const wanted = pathText(path);
  return tables[0]?.columns.find((column) => pathText(column.path) === wanted) ?? null;
}

/** Returns a condition on `state`, an SQL text: true for a published state, false without a state. */
export function isPublished({ dialect }: ViewModel, { profile }: ViewedResource, state: string): string {
  const values = (profile.state?.published ?? []).map((value) => dialect.literal(String(value)));
  return `COALESCE(${state} IN (${values.join(', ')}), ${dialect.falseLiteral})`;
}

/** `is_published` for the view of the main table of a resource. */
function publishedColumn(model: ViewModel, resource: ViewedResource): ViewColumn[] {
  const state = stateColumn(resource);
  if (state === null) return [];
  const text = model.dialect.text(`${ROW}.${model.dialect.id(state.name)}`, state.type);
  const description = `True if ${state.name} says that the record is published.`;
  return [columnWithoutSource('is_published', 'boolean', isPublished(model, resource, text), description)];
}

/**
 * `is_final` for a view of the table of reports: false while the service may still change the report of the row's day, that
 * is, while the window of that day is open. Most rows are older than the first open window, which one subquery finds. Empty
 * if the rows have no column with a day. `row` is the alias of the table with its dot, such as `r.`.
 */
export function finalColumn(
  { dialect }: ViewModel,
  { resource, profile, tables: [main] }: ViewedResource,
  row: string,
): ViewColumn[] {
  const column = main === undefined || profile.windows === null ? null : windowColumn(main, profile.windows);
  if (column === null) return [];
  const cell = `${row}${dialect.id(column.name)}`;
  const day = column.type === 'date' ? cell : dialect.converted(cell, column.type, 'date');
  const openWindows = ` FROM "_sync_windows" AS w WHERE w."resource" = ${dialect.literal(resource)} AND w."is_final" = 0 AND w."dropped_at" IS NULL`;
  const firstOpenDay = `(SELECT ${dialect.day('min(w."window_start")')}${openWindows})`;
  const isInOpenWindow = `${day} >= ${dialect.day('w."window_start"')} AND ${day} < ${dialect.day('w."window_end"')}`;
  const sql = `CASE WHEN ${day} IS NULL THEN NULL WHEN ${day} < ${firstOpenDay} THEN 1 = 1 ELSE NOT EXISTS (SELECT 1${openWindows} AND ${isInOpenWindow}) END`;
  const description = 'False while the service may still change the window of the row.';
  return [columnWithoutSource('is_final', 'boolean', sql, description)];
}

const DAYS: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'text']);

/** Returns the column with the day of a row; null if it has none, or if its days are in another zone than UTC. */
function windowColumn(table: TableShape, { field, zone }: { field: string; zone: string }): Column | null {
  const [column] = updatedColumns(table.columns, { updated: field });
  if (column === undefined || !DAYS.has(column.type)) return null;
  // Databases convert timestamps to days in UTC.
  return column.type === 'timestamp' && zone !== 'UTC' ? null : column;
}

/**
 * `<resource>_files` and `<resource>_files_live`, if files are copied or were: the contents of files over time, and the
 * current files of live records. The bytes are in a store.
 */
export function filesViews(model: ViewModel, planned: PlannedViews): View[] {
  return model.resources.flatMap((resource) => {
    if (!resource.hasFiles || !planned.has(`${resource.tables[0]?.name ?? ''}_live`)) return [];
    const columns = fileColumns(model, resource);
    return [allFiles(model, resource, columns), liveFiles(model, resource, columns)];
  });
}

const FILE = 'f';

function allFiles({ dialect }: ViewModel, { resource }: ViewedResource, columns: readonly ViewColumn[]): View {
  return {
    name: `${resource}_files`,
    resource,
    description: `Every content that a file of a ${resource} record had, one row from valid_from to valid_to. The bytes are in a store, by their sha256.`,
    columns,
    from: ` FROM "_sync_files" AS ${FILE} WHERE ${FILE}.${dialect.id('resource')} = ${dialect.literal(resource)}`,
  };
}

function liveFiles({ dialect }: ViewModel, viewed: ViewedResource, columns: readonly ViewColumn[]): View {
  const { id } = dialect;
  const { resource, tables } = viewed;
  const { name, key } = tables[0] ?? { name: '', key: [] };
  const record = `JOIN ${id(name)} AS ${ROW} ON ${ROW}.${id(key[0] ?? '')} = ${FILE}.${id('record_id')}`;
  const isLive = `${ROW}.${id('_deleted_at')} IS NULL AND ${FILE}.${id('valid_to')} IS NULL`;
  return {
    name: `${resource}_files_live`,
    resource,
    description: `The files of the live ${resource} records as they are now, one a row, including those that could not be fetched.`,
    columns,
    from: ` FROM "_sync_files" AS ${FILE} ${record} WHERE ${FILE}.${id('resource')} = ${dialect.literal(resource)} AND ${isLive}`,
  };
}

function fileColumns({ dialect }: ViewModel, { resource, tables: [main] }: ViewedResource): ViewColumn[] {
  const column = (name: string, type: ViewColumn['type'], description: string): ViewColumn =>
    columnWithoutSource(name, type, `${FILE}.${dialect.id(name)}`, description);
  // Stored as small integers, but shown as BIGINT like all integers.
  const number = (name: string, description: string): ViewColumn =>
    columnWithoutSource(name, 'integer', `CAST(${FILE}.${dialect.id(name)} AS BIGINT)`, description);
  const key = column('record_id', 'text', `The ${resource} record.`);
  return [
    { ...key, name: `${resource}_id`, references: main === undefined ? null : `${main.name}.${main.key[0] ?? ''}` },
    column('field', 'text', 'The name of the file in the profile.'),
    number('position', 'Its position if the record has several, from 0.'),
    column('url', 'text', 'The address from which it was requested.'),
    column('sha256', 'text', 'The SHA-256 of its bytes, which is its name in the store; null before it was fetched.'),
    column('bytes', 'integer', 'Its size in bytes.'),
    column('type', 'text', 'The type of its content, such as image/png.'),
    number('width', 'Of a picture, in pixels.'),
    number('height', 'Of a picture, in pixels.'),
    column('fetched_at', 'timestamp', 'When the service was last found to serve this content, UTC.'),
    column('etag', 'text', 'The ETag of this content at the service.'),
    column('status', 'text', STATUSES),
    column('error', 'text', 'Why it is missing or outdated.'),
    column('valid_from', 'timestamp', 'Since when the record has this content, as far as the copy saw, UTC.'),
    column('valid_to', 'timestamp', 'Until when; null for its current content.'),
  ];
}

const STATUSES =
  'stored: as last served; waiting or failed: to be fetched, and the last content stays until then; refused: not allowed by the profile; gone: the service no longer has it.';
