// Views over internal tables, which tell an analyst about the copy itself: how fresh it is (`sync_freshness`), what was
// deleted (`sync_deletes`), which columns exist (`sync_dictionary`), and so on. Each function describes one view as data,
// with the SQL of each column; `plan-views.ts` calls them.
import { INTERNAL_COLUMNS } from '../database/table-layout.ts';
import type { ViewDialect } from '../database/view-dialect.ts';
import type { Column } from '../model/table.ts';
import { COLUMN_TYPES, type ColumnType } from '../model/vocabulary.ts';
import { pathText } from '../rows/columns/column-name.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';
import { isHidden } from '../rows/mask-fields.ts';
import {
  columnWithoutSource,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

type SourceViewColumn = readonly [name: string, type: ColumnType, sql: string, description: string];

/** Returns a list with one view, as `plan-views.ts` expects it of each kind of view. */
function sourceView(name: string, description: string, columns: readonly SourceViewColumn[], from: string): View[] {
  return [
    { name, resource: null, description, columns: columns.map((column) => columnWithoutSource(...column)), from },
  ];
}

/** `calendar`: one row per day, so that reports can show days, weeks and months without data. */
export function calendarView(): View[] {
  const columns: SourceViewColumn[] = [
    ['date', 'date', 'd."date"', 'The day.'],
    ['month', 'text', 'd."month"', 'Its month, such as 2024-05.'],
    ['quarter', 'text', 'd."quarter"', 'Its quarter, such as 2024-Q2.'],
    ['year', 'integer', 'd."year"', 'Its year.'],
    [
      'iso_week',
      'text',
      'd."iso_week"',
      'Its ISO 8601 week, such as 2024-W01; the year may differ from that of the day.',
    ],
    ['weekday', 'integer', 'd."weekday"', 'The day of the week from 1, Monday, to 7, Sunday.'],
    ['is_weekend', 'boolean', 'd."is_weekend"', 'True on Saturday and Sunday.'],
  ];
  const description = 'One row per day, from the first year of the data to two years ahead.';
  return sourceView('calendar', description, columns, ' FROM "_sync_calendar" AS d');
}

/** `sync_deletes`: every delete, and when the record was restored. */
export function deletesView(): View[] {
  const columns: SourceViewColumn[] = [
    ['resource', 'text', 'd."resource"', 'The resource of the record.'],
    ['id', 'text', 'd."id"', 'The key of the record.'],
    ['deleted_at', 'timestamp', 'd."deleted_at"', 'When the service deleted it, or when a sync found it missing, UTC.'],
    ['restored_at', 'timestamp', 'd."restored_at"', 'When a sync found it again, UTC; null while it is deleted.'],
  ];
  const description = 'Every delete of a record, and when it was restored.';
  return sourceView('sync_deletes', description, columns, ' FROM "_sync_deletes" AS d');
}

const CHANGE_KIND = `CAST(coalesce(c."kind", CASE WHEN c."from_type" IS NULL THEN 'new' ELSE 'widened' END) AS TEXT)`;
const CHANGE_KINDS =
  'new, widened, gone (no record of a run has a value for it), renamed? (the same, and another column seems to have the values), or back.';

/** `sync_schema_log`: every new or widened column, and every column that lost its values. */
export function schemaLogView({ dialect }: ViewModel): View[] {
  const columns: SourceViewColumn[] = [
    ['changed_at', 'timestamp', 'c."changed_at"', 'When the table changed, UTC.'],
    ['table_name', 'text', 'c."table_name"', 'The table.'],
    ['column_name', 'text', 'c."column_name"', 'Its column.'],
    ['from_type', 'text', typeName(dialect, 'c."from_type"'), 'The type that it had; null for a new column.'],
    ['to_type', 'text', typeName(dialect, 'c."to_type"'), 'The type that it has had since.'],
    ['kind', 'text', CHANGE_KIND, CHANGE_KINDS],
    ['renamed_to', 'text', 'c."renamed_to"', 'The column that seems to have the values now, as table.column.'],
  ];
  const description = 'Every column of a copied table that was added, became wider, lost its values or has them again.';
  return sourceView('sync_schema_log', description, columns, ' FROM "_sync_schema_changes" AS c');
}

/** The SQL that converts a stored type to the database's own name for it. */
function typeName(dialect: ViewDialect, sql: string): string {
  const names = COLUMN_TYPES.map(
    (type) => `WHEN ${dialect.literal(type)} THEN ${dialect.literal(dialect.types[type])}`,
  );
  return dialect.declared(`CAST(CASE ${sql} ${names.join(' ')} END AS TEXT)`, 'text');
}

const FRESHNESS_FROM = ` FROM (SELECT "resource" FROM "_sync_checkpoints" UNION SELECT "resource" FROM "_sync_runs") AS known LEFT JOIN "_sync_checkpoints" AS checkpoint ON checkpoint."resource" = known."resource"`;
const REJECTS = `(SELECT count(*) FROM "_sync_rejects" AS r WHERE r."resource" = known."resource" AND r."resolved_at" IS NULL)`;

function lastRun(column: string): string {
  return `(SELECT r."${column}" FROM "_sync_runs" AS r WHERE r."resource" = known."resource" ORDER BY r."started_at" DESC, r."run_id" DESC LIMIT 1)`;
}

/** Ignores verifications without a result. */
function lastVerification(column: string): string {
  return `(SELECT v."${column}" FROM "_sync_verifications" AS v WHERE v."resource" = known."resource" AND v."verdict" <> 'unproved' ORDER BY v."ended_at" DESC LIMIT 1)`;
}

function asText(sql: string): string {
  return `CAST(${sql} AS TEXT)`;
}

/**
 * `sync_freshness`: age and size of the copy of each resource. Columns that read a table of records are subqueries, so that
 * a query without these columns does not wait for that table.
 */
export function freshnessView({ resources, dialect, copied }: ViewModel, planned: PlannedViews): View[] {
  const countRows = (table: string, where: string): string =>
    `(SELECT count(*) FROM ${dialect.id(table)} AS t${where})`;
  const countDeleted = (table: string): string => countRows(table, ` WHERE t."_deleted_at" IS NOT NULL`);
  // Both counts use an index, while counting live rows directly would read the table.
  const countLive = (table: string): string => `${countRows(table, '')} - ${countDeleted(table)}`;
  const countAltered = (table: string): string =>
    countRows(table, ` WHERE t."_deleted_at" IS NULL AND t."_version" > 1`);
  const byResource = (countIn: (table: string) => string): string => {
    const cases = resources.flatMap(({ resource, tables: [main] }) =>
      main === undefined ? [] : [`WHEN ${dialect.literal(resource)} THEN ${countIn(main.name)}`],
    );
    return `CAST(${cases.length === 0 ? 'NULL' : `CASE known."resource" ${cases.join(' ')} END`} AS BIGINT)`;
  };
  const newest = resources.flatMap((each) => selectTimes(each, dialect, planned));
  // A selected column keeps its declared type in SQLite, the result of max() does not.
  const newestAt =
    newest.length === 0
      ? dialect.converted('NULL', 'text', 'timestamp')
      : `(${newest.join(' UNION ALL ')} ORDER BY 1 DESC LIMIT 1)`;
  const names = copied.length === 0 ? 'NULL' : copied.map((name) => dialect.literal(name)).join(', ');
  const columns: SourceViewColumn[] = [
    ['resource', 'text', asText('known."resource"'), 'The resource.'],
    ['last_success_at', 'timestamp', 'checkpoint."last_success_at"', 'When it was last copied to the end, UTC.'],
    ['last_full_at', 'timestamp', 'checkpoint."last_full_at"', 'When all of it was last read, UTC.'],
    ['last_run_status', 'text', asText(lastRun('status')), 'ok, partial, failed, deferred, interrupted or running.'],
    ['last_run_started_at', 'timestamp', lastRun('started_at'), 'When its last run began, UTC.'],
    ['last_run_finished_at', 'timestamp', lastRun('finished_at'), 'When its last run ended, UTC.'],
    ['last_run_error', 'text', asText(lastRun('error_code')), 'The code of the error of its last run.'],
    ['open_rejects', 'integer', `CAST(${REJECTS} AS BIGINT)`, 'Records that could not be stored.'],
    ['last_run_warnings', 'text', asText(lastRun('warnings')), 'The warnings of its last run, as JSON.'],
    ['newest_record_at', 'timestamp', newestAt, 'When the service last changed a live record, UTC.'],
    ['rows_live', 'integer', byResource(countLive), 'Live records.'],
    ['rows_deleted', 'integer', byResource(countDeleted), 'Records that are deleted and kept.'],
    [
      'rows_altered',
      'integer',
      byResource(countAltered),
      'Live records that have changed since they were first copied.',
    ],
    ['last_verified_at', 'timestamp', lastVerification('ended_at'), 'When the copy was last verified, UTC.'],
    ['last_verification', 'text', asText(lastVerification('verdict')), 'Its result: equal or differs.'],
    // Tables and views of a resource stay after it is removed from the profile or the settings.
    [
      'is_copied',
      'boolean',
      `(known."resource" IN (${names}))`,
      'False if it is no longer copied: the rows of its last run stay.',
    ],
  ];
  const description = 'How fresh and how large the copy is, one row per resource.';
  return sourceView('sync_freshness', description, columns, FRESHNESS_FROM);
}

/**
 * The query for the times of change of the live records of a resource; of several fields, the first that is not null
 * counts. A resource without a time of change uses its time of publication.
 */
function selectTimes(
  { resource, tables: [table], profile }: ViewedResource,
  dialect: ViewDialect,
  planned: PlannedViews,
): string[] {
  const view = table === undefined ? undefined : planned.get(`${table.name}_live`);
  if (table === undefined || view === undefined) return [];
  const viewTimes = view.columns.filter(({ type }) => type === 'timestamp' || type === 'date');
  const timesOf = (columns: readonly Column[]): ViewColumn[] =>
    columns.flatMap(({ name }) => viewTimes.filter((column) => column.name === name));
  const updated = timesOf(updatedColumns(table.columns, profile));
  const published = timesOf(table.columns).filter(({ name }) => name.startsWith('published'));
  const columns = updated.length > 0 ? updated : published.slice(0, 1);
  if (columns.length === 0) return [];
  const times = columns.map(({ name, type }) => {
    const sql = `t.${dialect.id(name)}`;
    return type === 'timestamp' ? sql : dialect.converted(sql, type, 'timestamp');
  });
  const time = times.length === 1 ? (times[0] ?? '') : `coalesce(${times.join(', ')})`;
  const isResource = `known."resource" = ${dialect.literal(resource)}`;
  return [`SELECT ${time} FROM ${dialect.id(view.name)} AS t WHERE ${isResource} AND ${time} IS NOT NULL`];
}

/** `<resource>_windows` for each resource that is requested by windows: the state of each window. */
export function windowViews({ resources, dialect }: ViewModel): View[] {
  const day = (name: string): string => dialect.day(`w."${name}"`);
  const columns: SourceViewColumn[] = [
    ['window_start', 'date', day('window_start'), 'The first day of the window.'],
    ['window_end', 'date', day('window_end'), 'The first day after it.'],
    ['is_final', 'boolean', 'w."is_final" = 1', 'False while the service may still change it.'],
    ['rows', 'integer', 'w."rows"', 'Live rows when it was last read; of a dropped window, those it had.'],
    ['fetched_at', 'timestamp', 'w."fetched_at"', 'When the rows were requested, UTC.'],
    ['changed_at', 'timestamp', 'w."changed_at"', 'When its rows last changed, UTC.'],
    ['dropped_at', 'timestamp', 'w."dropped_at"', 'When its rows were removed from the copy by age, UTC.'],
    ['held_at', 'timestamp', 'w."held_at"', 'Since when a change waits for a user to confirm it, UTC.'],
    ['is_capped', 'boolean', 'w."capped" = 1', 'True if the service may not have listed all of its rows.'],
    ['totals', 'text', 'w."totals"', 'Sums of the service that differ from those of the rows, as JSON.'],
  ];
  return resources.flatMap(({ resource, profile, tables: [main] }) => {
    if (profile.windows === null || main === undefined) return [];
    const description = `The windows of the ${resource} reports, one a row: when each was read, and whether it may still change.`;
    const from = ` FROM "_sync_windows" AS w WHERE w."resource" = ${dialect.literal(resource)}`;
    return sourceView(`${main.name}_windows`, description, columns, from);
  });
}

/** `sync_dictionary`: every column of every copied table and managed view. */
export function dictionaryView(model: ViewModel, planned: PlannedViews): View[] {
  const { dialect } = model;
  // The SQL that is true for these columns, given as `table.column`.
  const matchColumns = (columns: readonly string[]): string => {
    const list = columns.map((column) => dialect.literal(column)).join(', ');
    return columns.length === 0 ? dialect.falseLiteral : `(d."table_name" || '.' || d."column_name" IN (${list}))`;
  };
  const isKey = matchColumns(keyColumns(model, planned));
  const isPersonal = matchColumns(personalColumns(model, planned));
  const columns: SourceViewColumn[] = [
    ['table_name', 'text', 'd."table_name"', 'The table or view.'],
    ['column_name', 'text', 'd."column_name"', 'Its column.'],
    ['type', 'text', 'd."type"', 'The type of the column.'],
    ['first_seen', 'timestamp', 'd."first_seen"', 'When the column was added, UTC.'],
    ['description', 'text', 'd."description"', 'What it contains.'],
    ['source_path', 'text', 'd."source_path"', 'The path of the value in the record of the service, with dots.'],
    ['references', 'text', 'd."references"', 'The key that its values name, such as content.id.'],
    ['is_key', 'boolean', isKey, 'True for the columns that identify a row.'],
    ['is_personal', 'boolean', isPersonal, 'True if the profile hashes or excludes the field.'],
  ];
  // The order matters: SQLite takes the types of a union from casts in its first query, or from columns of its last one.
  const queries = [selectInternalColumns(dialect), selectTableColumns(model, planned), selectViewColumns(dialect)];
  const description = 'Every column of the copied tables and of the views over them.';
  return sourceView('sync_dictionary', description, columns, ` FROM (${queries.join(' UNION ALL ')}) AS d`);
}

/** The columns, as `table.column`, that identify a row. */
function keyColumns({ resources }: ViewModel, planned: PlannedViews): string[] {
  const viewName = (name: string): string | undefined => planned.get(name)?.name;
  return resources.flatMap(({ resource, tables: [main, ...lists] }) => {
    const { key, name } = main ?? { key: [], name: '' };
    return [
      ...qualifiedColumns([name, viewName(`${name}_live`), viewName(`${name}_summary`)], key),
      ...qualifiedColumns([viewName(`${resource}_history`)], [...key, 'version']),
      ...lists.flatMap((list) => qualifiedColumns([list.name, viewName(`${list.name}_live`)], list.key)),
    ];
  });
}

/** Combines each table or view with each column. */
function qualifiedColumns(names: readonly (string | undefined)[], key: readonly string[]): string[] {
  return names.flatMap((name) => (name === undefined ? [] : key.map((column) => `${name}.${column}`)));
}

/** The columns, as `table.column`, whose fields the profile hides. */
function personalColumns({ resources }: ViewModel, planned: PlannedViews): string[] {
  return resources.flatMap(({ resource, tables, profile: { fields } }) => {
    const views = [...planned.values()].filter((view) => view.resource === resource);
    const columns = [
      ...tables.flatMap((table) => table.columns.map(({ name, path }) => ({ table, name, path: pathText(path) }))),
      ...views.flatMap((table) => table.columns.map(({ name, source }) => ({ table, name, path: source }))),
    ];
    return columns.filter(({ path }) => isHidden(path, fields)).map(({ table, name }) => `${table.name}.${name}`);
  });
}

/** The query for the columns of managed views. */
function selectViewColumns(dialect: ViewDialect): string {
  return `SELECT v."view_name", v."column_name", ${typeName(dialect, 'v."type"')}, v."first_seen", v."description", v."source_path", v."refers_to" FROM "_sync_view_columns" AS v`;
}

/** The query for the columns of tables. Their descriptions are those of the live view of the table. */
function selectTableColumns({ resources, dialect }: ViewModel, planned: PlannedViews): string {
  const usualName = `c."table_name" || '_live'`;
  // A live view has another name if an external object has the usual one.
  const cases = resources.flatMap(({ tables }) =>
    tables.flatMap(({ name }) => {
      const view = planned.get(`${name}_live`)?.name ?? `${name}_live`;
      return view === `${name}_live` ? [] : [`WHEN ${dialect.literal(name)} THEN ${dialect.literal(view)}`];
    }),
  );
  const live = cases.length === 0 ? usualName : `CASE c."table_name" ${cases.join(' ')} ELSE ${usualName} END`;
  return `SELECT c."table_name", c."column_name", ${typeName(dialect, 'c."type"')}, c."first_seen", CAST(coalesce(l."description", c."comment") AS TEXT), l."source_path", l."refers_to" FROM "_sync_columns" AS c LEFT JOIN "_sync_view_columns" AS l ON l."view_name" = ${live} AND l."column_name" = c."column_name"`;
}

/** The query for the internal columns of each table, such as `_deleted_at`. */
function selectInternalColumns(dialect: ViewDialect): string {
  const text = (value: string): string => asText(dialect.literal(value));
  const rows = INTERNAL_COLUMNS.map(
    ({ name, type, comment }) =>
      `SELECT ${text(name)} AS "column_name", ${text(dialect.types[type])} AS "type", ${text(comment)} AS "description"`,
  );
  const nothing = asText('NULL');
  return `SELECT t."table_name", o."column_name", o."type", t."first_seen", o."description", ${nothing} AS "source_path", ${nothing} AS "references" FROM "_sync_columns" AS t CROSS JOIN (${rows.join(' UNION ALL ')}) AS o WHERE t."table_path" = '[]' AND t."role" = 'key'`;
}
