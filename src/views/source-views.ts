import { OWN_COLUMNS } from '../database/table-layout.ts';
import type { ViewDialect } from '../database/view-dialect.ts';
import type { Column } from '../model/table.ts';
import { COLUMN_TYPES, type ColumnType } from '../model/vocabulary.ts';
import { pathText } from '../rows/columns/column-name.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';
import { isHidden } from '../rows/mask-fields.ts';
import {
  ownColumn,
  type PlannedViews,
  type View,
  type ViewColumn,
  type ViewedResource,
  type ViewModel,
} from './view.ts';

/** A column over managed tables. */
type SourceViewColumn = readonly [name: string, type: ColumnType, sql: string, description: string];

/** A view of the whole source over managed tables. */
function ownView(name: string, description: string, columns: readonly SourceViewColumn[], from: string): View {
  return { name, resource: null, description, columns: columns.map((column) => ownColumn(...column)), from };
}

/** `calendar`: one row per day, so that reports can show days, weeks and months without data. */
export function calendarView(): View[] {
  return [
    ownView(
      'calendar',
      'One row per day, from the first year of the data to two years ahead.',
      CALENDAR_COLUMNS,
      ' FROM "_sync_calendar" AS d',
    ),
  ];
}

const CALENDAR_COLUMNS = [
  ['date', 'date', 'd."date"', 'The day.'],
  ['month', 'text', 'd."month"', 'Its month, such as 2024-05.'],
  ['quarter', 'text', 'd."quarter"', 'Its quarter, such as 2024-Q2.'],
  ['year', 'integer', 'd."year"', 'Its year.'],
  [
    'iso_week',
    'text',
    'd."iso_week"',
    'Its week by ISO 8601, such as 2024-W01; its year may be another than the day has.',
  ],
  ['weekday', 'integer', 'd."weekday"', 'The day of the week from 1, Monday, to 7, Sunday.'],
  ['is_weekend', 'boolean', 'd."is_weekend"', 'True on Saturday and Sunday.'],
] as const;

/** `sync_deletes`: every delete, and when the record was restored. */
export function deletesView(): View[] {
  const columns = [
    ['resource', 'text', 'd."resource"', 'The resource of the record.'],
    ['id', 'text', 'd."id"', 'The key of the record.'],
    [
      'deleted_at',
      'timestamp',
      'd."deleted_at"',
      'When the record was deleted by the word of the service, else when the service was asked and no longer had it, UTC.',
    ],
    [
      'restored_at',
      'timestamp',
      'd."restored_at"',
      'When the service was asked and had the record again, UTC; null as long as it is gone.',
    ],
  ] as const;
  return [
    ownView(
      'sync_deletes',
      'Every delete of a record, and when it was restored.',
      columns,
      ' FROM "_sync_deletes" AS d',
    ),
  ];
}

/** `sync_schema_log`: every new or widened column, and every column that lost its values. */
export function schemaLogView({ dialect }: ViewModel): View[] {
  const columns = [
    ['changed_at', 'timestamp', 'c."changed_at"', 'When the table changed, UTC.'],
    ['table_name', 'text', 'c."table_name"', 'The table.'],
    ['column_name', 'text', 'c."column_name"', 'Its column.'],
    ['from_type', 'text', typeWord(dialect, 'c."from_type"'), 'The type that it had; null for a new column.'],
    ['to_type', 'text', typeWord(dialect, 'c."to_type"'), 'The type that it has had since.'],
    [
      'kind',
      'text',
      `CAST(coalesce(c."kind", CASE WHEN c."from_type" IS NULL THEN 'new' ELSE 'widened' END) AS TEXT)`,
      'new, widened, gone (the records of a run have no value for it any more), renamed? (the same, and another column seems to have the values), or back.',
    ],
    ['renamed_to', 'text', 'c."renamed_to"', 'The column that seems to have the values now, as table.column.'],
  ] as const;
  const description = 'Every column of a copied table that was added, became wider, lost its values or has them again.';
  return [ownView('sync_schema_log', description, columns, ' FROM "_sync_schema_changes" AS c')];
}

/** Converts a stored type to the database's own name for it; NULL for none. */
function typeWord(dialect: ViewDialect, sql: string): string {
  const words = COLUMN_TYPES.map(
    (type) => `WHEN ${dialect.literal(type)} THEN ${dialect.literal(dialect.types[type])}`,
  );
  return dialect.declared(`CAST(CASE ${sql} ${words.join(' ')} END AS TEXT)`, 'text');
}

/**
 * `sync_freshness`: age and size of the copy of each resource. Its first columns are those of the migrations. Columns that
 * read a table are subqueries, so that queries without them do not wait for it.
 */
export function freshnessView(model: ViewModel, planned: PlannedViews): View[] {
  const columns = [...runColumns(), ...rowCountColumns(model, planned), ...verificationColumns(), copiedColumn(model)];
  return [
    ownView('sync_freshness', 'How fresh and how large the copy is, one row per resource.', columns, FRESHNESS_FROM),
  ];
}

const FRESHNESS_FROM = ` FROM (SELECT "resource" FROM "_sync_checkpoints" UNION SELECT "resource" FROM "_sync_runs") AS known LEFT JOIN "_sync_checkpoints" AS checkpoint ON checkpoint."resource" = known."resource"`;

const REJECTS = `(SELECT count(*) FROM "_sync_rejects" AS r WHERE r."resource" = known."resource" AND r."resolved_at" IS NULL)`;

function runColumns(): SourceViewColumn[] {
  const lastText = (column: string): string => `CAST(${lastRun(column)} AS TEXT)`;
  return [
    ['resource', 'text', 'CAST(known."resource" AS TEXT)', 'The resource.'],
    ['last_success_at', 'timestamp', 'checkpoint."last_success_at"', 'When it was last copied to the end, UTC.'],
    ['last_full_at', 'timestamp', 'checkpoint."last_full_at"', 'When all of it was last read, UTC.'],
    [
      'last_run_status',
      'text',
      lastText('status'),
      'How its last run ended: ok, partial, failed, deferred, interrupted; or running.',
    ],
    ['last_run_started_at', 'timestamp', lastRun('started_at'), 'When its last run began, UTC.'],
    ['last_run_finished_at', 'timestamp', lastRun('finished_at'), 'When its last run ended, UTC.'],
    ['last_run_error', 'text', lastText('error_code'), 'The code of what its last run failed with.'],
    ['open_rejects', 'integer', `CAST(${REJECTS} AS BIGINT)`, 'Records that are set aside.'],
    ['last_run_warnings', 'text', lastText('warnings'), 'What its last run warned of, as JSON.'],
  ];
}

function lastRun(column: string): string {
  return `(SELECT r."${column}" FROM "_sync_runs" AS r WHERE r."resource" = known."resource" ORDER BY r."started_at" DESC, r."run_id" DESC LIMIT 1)`;
}

function verificationColumns(): SourceViewColumn[] {
  return [
    ['last_verified_at', 'timestamp', lastVerification('ended_at'), 'When the copy was last verified, UTC.'],
    [
      'last_verification',
      'text',
      `CAST(${lastVerification('verdict')} AS TEXT)`,
      'What that has found: equal or differs.',
    ],
  ];
}

/** Tables and views of a resource stay after it is removed from the profile or the settings. */
function copiedColumn({ copied, dialect }: ViewModel): SourceViewColumn {
  const names = copied.length === 0 ? 'NULL' : copied.map((name) => dialect.literal(name)).join(', ');
  const description =
    'False if the profile or the settings no longer name the resource: its tables and views keep the rows of its last run.';
  return ['is_copied', 'boolean', `(known."resource" IN (${names}))`, description];
}

/** Ignores verifications without a result. */
function lastVerification(column: string): string {
  return `(SELECT v."${column}" FROM "_sync_verifications" AS v WHERE v."resource" = known."resource" AND v."verdict" <> 'unproved' ORDER BY v."ended_at" DESC LIMIT 1)`;
}

function rowCountColumns({ resources, dialect }: ViewModel, planned: PlannedViews): SourceViewColumn[] {
  const rows =
    (where: string) =>
    ({ tables }: ViewedResource): string | null =>
      tables[0] === undefined ? null : `(SELECT count(*) FROM ${dialect.id(tables[0].name)} AS t${where})`;
  // Both counts use an index, while counting live rows directly would read the table.
  const [all, deleted] = [rows(''), rows(` WHERE t."_deleted_at" IS NOT NULL`)];
  const live = (each: ViewedResource): string | null => (all(each) === null ? null : `${all(each)} - ${deleted(each)}`);
  const altered = rows(` WHERE t."_deleted_at" IS NULL AND t."_version" > 1`);
  const newest = resources.flatMap((each) => newestOf(each, dialect, planned));
  const count = (of: typeof altered): string => `CAST(${byResource(resources, dialect, of)} AS BIGINT)`;
  // A selected column keeps its declared type in SQLite, the result of max() does not.
  const latest = `(${newest.join(' UNION ALL ')} ORDER BY 1 DESC LIMIT 1)`;
  return [
    [
      'newest_record_at',
      'timestamp',
      newest.length === 0 ? dialect.converted('NULL', 'text', 'timestamp') : latest,
      'The latest time of change of a live record by the word of the service, UTC.',
    ],
    ['rows_live', 'integer', count(live), 'Live records.'],
    ['rows_deleted', 'integer', count(deleted), 'Records that are deleted and kept.'],
    ['rows_altered', 'integer', count(altered), 'Live records that have changed since they were first copied.'],
  ];
}

function byResource(
  resources: readonly ViewedResource[],
  dialect: ViewDialect,
  sqlOf: (resource: ViewedResource) => string | null,
): string {
  const cases = resources.flatMap((each) => {
    const sql = sqlOf(each);
    return sql === null ? [] : [`WHEN ${dialect.literal(each.resource)} THEN ${sql}`];
  });
  return cases.length === 0 ? 'NULL' : `CASE known."resource" ${cases.join(' ')} END`;
}

/** Selects the times of live records. The first non-null of several fields counts, as in the copy itself. */
function newestOf(
  { resource, tables: [table], profile }: ViewedResource,
  dialect: ViewDialect,
  planned: PlannedViews,
): string[] {
  const view = table === undefined ? undefined : planned.get(`${table.name}_live`);
  if (table === undefined || view === undefined) return [];
  const timed = (columns: readonly Column[]): ViewColumn[] =>
    columns.flatMap(({ name }) => view.columns.filter((shown) => shown.name === name && isTimed(shown)));
  const updated = timed(updatedColumns(table.columns, profile));
  const published = timed(table.columns).filter(({ name }) => PUBLISHED.test(name));
  const columns = updated.length > 0 ? updated : published.slice(0, 1);
  if (columns.length === 0) return [];
  const times = columns.map(({ name, type }) => {
    const sql = `t.${dialect.id(name)}`;
    return type === 'timestamp' ? sql : dialect.converted(sql, type, 'timestamp');
  });
  const time = times.length === 1 ? (times[0] ?? '') : `coalesce(${times.join(', ')})`;
  const own = `known."resource" = ${dialect.literal(resource)}`;
  return [`SELECT ${time} FROM ${dialect.id(view.name)} AS t WHERE ${own} AND ${time} IS NOT NULL`];
}

const PUBLISHED = /^published/;

function isTimed({ type }: ViewColumn): boolean {
  return type === 'timestamp' || type === 'date';
}

/** `sync_dictionary`: every column of every copied table and managed view. */
export function dictionaryView(model: ViewModel, planned: PlannedViews): View[] {
  const { resources, dialect } = model;
  const tables = resources.flatMap((resource) => resource.tables.map(({ name }) => name));
  // Views with another name than `<table>_live`, because that name was taken.
  const renamed = tables.flatMap((table) => {
    const view = planned.get(`${table}_live`)?.name;
    return view === undefined || view === `${table}_live` ? [] : [[table, view] as const];
  });
  const columns = [
    ['table_name', 'text', 'd."table_name"', 'The table or view.'],
    ['column_name', 'text', 'd."column_name"', 'Its column.'],
    ['type', 'text', 'd."type"', 'The type of the column.'],
    ['first_seen', 'timestamp', 'd."first_seen"', 'When the column came, UTC.'],
    ['description', 'text', 'd."description"', 'What it holds.'],
    ['source_path', 'text', 'd."source_path"', 'The way from the record of the service to the value, dotted.'],
    ['references', 'text', 'd."references"', 'The key that its values name, such as content.id.'],
    ['is_key', 'boolean', markOf(dialect, keyColumns(model, planned)), 'True for the columns that name a row.'],
    [
      'is_personal',
      'boolean',
      markOf(dialect, personalColumns(model, planned)),
      'True if the profile hashes or excludes the field.',
    ],
  ] as const;
  // SQLite takes the types of a union from bare columns of the last part, or from casts in the first.
  const parts = [ownColumns(dialect), tableColumns(dialect, renamed), viewColumns(dialect)];
  const from = ` FROM (${parts.join(' UNION ALL ')}) AS d`;
  return [ownView('sync_dictionary', 'Every column of the copied tables and of the views over them.', columns, from)];
}

/** An expression that is true for these columns, given as `table.column`. */
function markOf(dialect: ViewDialect, columns: readonly string[]): string {
  const list = columns.map((column) => dialect.literal(column)).join(', ');
  return columns.length === 0 ? dialect.no : `(d."table_name" || '.' || d."column_name" IN (${list}))`;
}

function keyColumns({ resources }: ViewModel, planned: PlannedViews): string[] {
  const views = (name: string, ...kinds: string[]): string[] =>
    kinds.flatMap((kind) => planned.get(`${name}_${kind}`)?.name ?? []);
  return resources.flatMap(({ resource, tables: [own, ...lists] }) => {
    const [key, name] = [own?.key ?? [], own?.name ?? ''];
    return [
      ...keyed([name, ...views(name, 'live', 'summary')], key),
      ...keyed(views(resource, 'history'), [...key, 'version']),
      ...lists.flatMap((list) => keyed([list.name, ...views(list.name, 'live')], list.key)),
    ];
  });
}

/** Combines each table or view with each column. */
function keyed(names: readonly string[], key: readonly string[]): string[] {
  return names.flatMap((name) => key.map((column) => `${name}.${column}`));
}

function personalColumns({ resources }: ViewModel, planned: PlannedViews): string[] {
  return resources.flatMap(({ resource, tables, profile: { fields } }) => {
    const ofTables = tables.flatMap(({ name, columns }) =>
      columns.flatMap((column) => (isHidden(pathText(column.path), fields) ? [`${name}.${column.name}`] : [])),
    );
    const views = [...planned.values()].filter((view) => view.resource === resource);
    const ofViews = views.flatMap(({ name, columns }) =>
      columns.flatMap((column) => (isHidden(column.source, fields) ? [`${name}.${column.name}`] : [])),
    );
    return [...ofTables, ...ofViews];
  });
}

function viewColumns(dialect: ViewDialect): string {
  return `SELECT v."view_name", v."column_name", ${typeWord(dialect, 'v."type"')}, v."first_seen", v."description", v."source_path", v."refers_to" FROM "_sync_view_columns" AS v`;
}

/** Descriptions of table columns are those of the live view. */
function tableColumns(dialect: ViewDialect, renamed: readonly (readonly [table: string, view: string])[]): string {
  const cases = renamed.map(([table, view]) => `WHEN ${dialect.literal(table)} THEN ${dialect.literal(view)}`);
  const usual = `c."table_name" || '_live'`;
  const live = cases.length === 0 ? usual : `CASE c."table_name" ${cases.join(' ')} ELSE ${usual} END`;
  return `SELECT c."table_name", c."column_name", ${typeWord(dialect, 'c."type"')}, c."first_seen", CAST(coalesce(l."description", c."comment") AS TEXT), l."source_path", l."refers_to" FROM "_sync_columns" AS c LEFT JOIN "_sync_view_columns" AS l ON l."view_name" = ${live} AND l."column_name" = c."column_name"`;
}

function ownColumns(dialect: ViewDialect): string {
  const text = (value: string): string => `CAST(${dialect.literal(value)} AS TEXT)`;
  const rows = OWN_COLUMNS.map(
    ({ name, type, comment }) =>
      `SELECT ${text(name)} AS "column_name", ${text(dialect.types[type])} AS "type", ${text(comment)} AS "description"`,
  );
  const nothing = 'CAST(NULL AS TEXT)';
  return `SELECT t."table_name", o."column_name", o."type", t."first_seen", o."description", ${nothing} AS "source_path", ${nothing} AS "references" FROM "_sync_columns" AS t CROSS JOIN (${rows.join(' UNION ALL ')}) AS o WHERE t."table_path" = '[]' AND t."role" = 'key'`;
}
