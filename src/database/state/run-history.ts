import type { Kysely } from 'kysely';
import { z } from 'zod';
import { toColumnChange, type ColumnChange } from '../../model/schema-change.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables, RejectRow, RunRow } from '../own-tables.ts';
import { outcomesOf, type OutcomeCounts, type RunFigures } from './runs.ts';

/** A warning as it is stored; `accepted` if the profile accepts it. */
export interface StoredWarning {
  code: string;
  message: string;
  hint: string;
  accepted?: boolean | undefined;
}

/** What a run of a resource failed with; `request_id` is of the service's answer. */
interface StoredError {
  code: string;
  message: string;
  hint: string | null;
  request_id: string | null;
}

/**
 * A row of the history: one resource's part in a run, or in several in a row that changed nothing. Times are epoch
 * milliseconds; figures and times are those of the latest of them, `all_*` and `outcomes` of all.
 */
export interface RunRecord extends RunFigures, Pick<RunRow, 'run_id' | 'resource' | 'command' | 'mode' | 'status'> {
  started_at: number;
  /** Null while it is under way. */
  finished_at: number | null;
  /** How many runs the row stands for, and when the first of them began. */
  runs: number;
  first_started_at: number;
  all_requests: number;
  all_bytes: number;
  outcomes: OutcomeCounts;
  error: StoredError | null;
  warnings: StoredWarning[];
}

interface RunChoice {
  /** Only of this one, or of these; of all if absent. */
  resource?: string | readonly string[] | undefined;
  /** Only runs that did not end well: failed, partial, deferred, interrupted. */
  failed?: boolean | undefined;
  /** Only runs that were under way at this moment or later, epoch milliseconds. */
  since?: number | undefined;
  limit: number;
}

/** Past runs and those under way, the newest first. */
export async function readRuns(
  own: Kysely<OwnTables>,
  { resource, failed = false, since, limit }: RunChoice,
): Promise<RunRecord[]> {
  let chosen = own.selectFrom('_sync_runs').selectAll();
  if (resource !== undefined) chosen = chosen.where('resource', 'in', [resource].flat());
  if (failed) chosen = chosen.where('status', 'not in', ['ok', 'running']);
  if (since !== undefined) {
    const moment = timestampText(since);
    chosen = chosen.where((where) => where.or([where('finished_at', 'is', null), where('finished_at', '>=', moment)]));
  }
  const newestFirst = chosen.orderBy('started_at', 'desc').orderBy('run_id', 'desc').orderBy('resource');
  return (await newestFirst.limit(limit).execute()).map(recordOf);
}

/** The newest run of a resource that has ended, however; null if there is none. */
export async function lastEndedRun(own: Kysely<OwnTables>, resource: string): Promise<RunRecord | null> {
  const row = await own
    .selectFrom('_sync_runs')
    .selectAll()
    .where('resource', '=', resource)
    .where('finished_at', 'is not', null)
    .orderBy('started_at', 'desc')
    .orderBy('run_id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row === undefined ? null : recordOf(row);
}

/** A change of a table. */
interface RunSchemaChange extends ColumnChange {
  changed_at: number;
  table: string;
  column: string;
}

/** A record that a run has set aside. */
interface RunReject extends Pick<RejectRow, 'reason' | 'record_id' | 'detail'> {
  hash: string;
  /** True once the record came in well, or was no longer listed. */
  is_resolved: boolean;
}

export interface RunDetails extends RunRecord {
  schema_changes: RunSchemaChange[];
  /** At most `MOST_REJECTS`; `rejected` counts all. */
  rejects: RunReject[];
}

/** Rejects of one run that are read. */
export const MOST_REJECTS = 50;

/** All resources' parts in one run, by name; none if there is no such run, or it stands in the row of a later one. */
export async function readRunDetails(own: Kysely<OwnTables>, run_id: string): Promise<RunDetails[]> {
  const rows = await own
    .selectFrom('_sync_runs')
    .selectAll()
    .where('run_id', '=', run_id)
    .orderBy('resource')
    .execute();
  const parts: RunDetails[] = [];
  for (const row of rows) {
    const [schema_changes, rejects] = [await schemaChangesOf(own, row), await rejectsOf(own, row)];
    parts.push({ ...recordOf(row), schema_changes, rejects });
  }
  return parts;
}

async function schemaChangesOf(own: Kysely<OwnTables>, { run_id, resource }: RunRow): Promise<RunSchemaChange[]> {
  const rows = await own
    .selectFrom('_sync_schema_changes')
    .selectAll()
    .where('resource', '=', resource)
    .where('run_id', '=', run_id)
    .orderBy('changed_at')
    .orderBy('table_name')
    .orderBy('column_name')
    .execute();
  return rows.map(({ changed_at, table_name: table, column_name: column, ...row }) =>
    Object.assign({ changed_at: timestampMs(changed_at), table, column }, toColumnChange(row)),
  );
}

/** Those that no later run has met again, and those that it was the first to meet. */
async function rejectsOf(
  own: Kysely<OwnTables>,
  { run_id, resource, started_at, finished_at }: RunRow,
): Promise<RunReject[]> {
  const rows = await own
    .selectFrom('_sync_rejects')
    .select(['reason', 'record_id', 'detail', 'hash', 'resolved_at'])
    .where('resource', '=', resource)
    .where((row) =>
      row.or([
        row('run_id', '=', run_id),
        row.and([row('first_seen', '>=', started_at), row('first_seen', '<=', finished_at ?? started_at)]),
      ]),
    )
    .orderBy('reason')
    .orderBy('record_id')
    .limit(MOST_REJECTS)
    .execute();
  return rows.map(({ reason, record_id, detail, hash, resolved_at }) => {
    return { reason, record_id, detail, hash, is_resolved: resolved_at !== null };
  });
}

function recordOf(row: RunRow): RunRecord {
  const { error_code, error, error_hint, request_id, first_started_at, all_requests, all_bytes, warnings, ...rest } =
    row;
  return {
    ...rest,
    started_at: timestampMs(row.started_at),
    finished_at: row.finished_at === null ? null : timestampMs(row.finished_at),
    first_started_at: timestampMs(first_started_at ?? row.started_at),
    all_requests: all_requests ?? row.requests,
    all_bytes: all_bytes ?? row.bytes,
    outcomes: outcomesOf(row),
    error: error_code === null ? null : { code: error_code, message: error ?? '', hint: error_hint, request_id },
    warnings: warnings === null ? [] : storedWarnings.parse(JSON.parse(warnings)),
  };
}

const storedWarnings = z.array(
  z.object({ code: z.string(), message: z.string(), hint: z.string(), accepted: z.boolean().optional() }),
);
