import type { Column } from '../../model/table.ts';
import { updatedColumns } from '../../rows/columns/updated-time.ts';
import type { ViewDialect } from '../../database/view-dialect.ts';
import type { PlannedView } from '../planned-view.ts';
import type { View, ViewColumn } from '../view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { ownView, type OwnColumn } from './own-views.ts';

/**
 * `sync_freshness`: how old and how large the copy of each resource is. Its first columns are those that the migrations
 * made it with. Whatever asks a table is a subquery of its own: who does not ask for the column does not wait for it.
 */
export function freshnessView(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
  const columns = [...runColumns(), ...tableColumns(model, above), ...verificationColumns(), copiedColumn(model)];
  return [ownView('sync_freshness', 'How fresh and how large the copy is, one row per resource.', columns, FROM)];
}

const FROM = ` FROM (SELECT "resource" FROM "_sync_checkpoints" UNION SELECT "resource" FROM "_sync_runs") AS known LEFT JOIN "_sync_checkpoints" AS checkpoint ON checkpoint."resource" = known."resource"`;

const REJECTS = `(SELECT count(*) FROM "_sync_rejects" AS r WHERE r."resource" = known."resource" AND r."resolved_at" IS NULL)`;

function runColumns(): OwnColumn[] {
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

function verificationColumns(): OwnColumn[] {
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

/** The tables and views of a resource that is removed from the profile or the settings stay as they are. */
function copiedColumn({ copied, dialect }: ViewModel): OwnColumn {
  const names = copied.length === 0 ? 'NULL' : copied.map((name) => dialect.literal(name)).join(', ');
  const description =
    'False if the profile or the settings no longer name the resource: its tables and views keep the rows of its last run.';
  return ['is_copied', 'boolean', `(known."resource" IN (${names}))`, description];
}

/** One that has come to no verdict says nothing. */
function lastVerification(column: string): string {
  return `(SELECT v."${column}" FROM "_sync_verifications" AS v WHERE v."resource" = known."resource" AND v."verdict" <> 'unproved' ORDER BY v."ended_at" DESC LIMIT 1)`;
}

function tableColumns({ resources, dialect }: ViewModel, above: ReadonlyMap<string, PlannedView>): OwnColumn[] {
  const rows =
    (where: string) =>
    ({ tables }: ViewedResource): string | null =>
      tables[0] === undefined ? null : `(SELECT count(*) FROM ${dialect.id(tables[0].name)} AS t${where})`;
  // Both are counted in an index, while counting the live rows would read the table.
  const [all, deleted] = [rows(''), rows(` WHERE t."_deleted_at" IS NOT NULL`)];
  const live = (each: ViewedResource): string | null => (all(each) === null ? null : `${all(each)} - ${deleted(each)}`);
  const altered = rows(` WHERE t."_deleted_at" IS NULL AND t."_version" > 1`);
  const newest = resources.flatMap((each) => newestOf(each, dialect, above));
  const count = (of: typeof altered): string => `CAST(${byResource(resources, dialect, of)} AS BIGINT)`;
  // Not max(): a column that is picked keeps its declared type in SQLite.
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

/** Times of a resource's live records. Of several fields the first that is not null counts, as in the copy itself. */
function newestOf(
  { resource, tables: [table], profile }: ViewedResource,
  dialect: ViewDialect,
  above: ReadonlyMap<string, PlannedView>,
): string[] {
  const view = table === undefined ? undefined : above.get(`${table.name}_live`);
  if (table === undefined || view === undefined) return [];
  const timed = (columns: readonly Pick<Column, 'name'>[]): ViewColumn[] =>
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
