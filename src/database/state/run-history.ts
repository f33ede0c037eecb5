import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import { type ColumnChange, toColumnChange } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables, RejectRow, RunRow, VerificationRow } from '../own-tables.ts';
import { type OutcomeCounts, outcomesOf, type RunFigures } from './runs.ts';

/** A stored warning; `accepted` if the profile accepts it. */
export interface StoredWarning {
  code: string;
  message: string;
  hint: string;
  accepted?: boolean | undefined;
}

/** The error of a run; `request_id` is of the service's response. */
interface StoredError {
  code: string;
  message: string;
  hint: string | null;
  request_id: string | null;
}

/**
 * One resource's part in a run, or in consecutive runs that changed nothing. Times are epoch milliseconds; counters and
 * times are those of the latest run, `all_*` and `outcomes` of all.
 */
export interface RunRecord extends RunFigures, Pick<RunRow, 'run_id' | 'resource' | 'command' | 'mode' | 'status'> {
  started_at: number;
  /** Null while it runs. */
  finished_at: number | null;
  /** The number of merged runs, and the start of the first one. */
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
  /** Only runs that failed or were partial, deferred or interrupted. */
  failed?: boolean | undefined;
  /** Only runs that were running at this time or later, epoch milliseconds. */
  since?: number | undefined;
  /** Only finished runs. */
  ended?: boolean;
  limit: number;
}

/** Past and current runs, the newest first. */
export async function readRuns(
  own: Kysely<OwnTables>,
  { resource, failed = false, since, ended = false, limit }: RunChoice,
): Promise<RunRecord[]> {
  let chosen = own.selectFrom('_sync_runs').selectAll();
  if (resource !== undefined) chosen = chosen.where('resource', 'in', [resource].flat());
  if (failed) chosen = chosen.where('status', 'not in', ['ok', 'running']);
  if (ended) chosen = chosen.where('finished_at', 'is not', null);
  if (since !== undefined) {
    const time = timestampText(since);
    chosen = chosen.where((where) => where.or([where('finished_at', 'is', null), where('finished_at', '>=', time)]));
  }
  const newestFirst = chosen.orderBy('started_at', 'desc').orderBy('run_id', 'desc').orderBy('resource');
  return (await newestFirst.limit(limit).execute()).map(toRecord);
}

/** The newest finished run of a resource; null if there is none. */
export async function lastEndedRun(own: Kysely<OwnTables>, resource: string): Promise<RunRecord | null> {
  return (await readRuns(own, { resource, ended: true, limit: 1 }))[0] ?? null;
}

interface RunSchemaChange extends ColumnChange {
  changed_at: number;
  table: string;
  column: string;
}

/** A record that a run has rejected. */
interface RunReject extends Pick<RejectRow, 'reason' | 'record_id' | 'detail' | 'hash'> {
  /** True once the record was stored, or was no longer listed. */
  is_resolved: boolean;
}

export interface RunDetails extends RunRecord {
  schema_changes: RunSchemaChange[];
  /** At most `MOST_REJECTS`; `rejected` counts all. */
  rejects: RunReject[];
}

/** Rejects that are read of one run. */
export const MOST_REJECTS = 50;

/** All resources' parts in one run, by name; none if there is no such run, or it was merged with a later one. */
export async function readRunDetails(own: Kysely<OwnTables>, run_id: string): Promise<RunDetails[]> {
  const runs = own.selectFrom('_sync_runs').selectAll().where('run_id', '=', run_id).orderBy('resource');
  const parts: RunDetails[] = [];
  for (const row of await runs.execute()) {
    const [schema_changes, rejects] = [await readSchemaChanges(own, row), await readRejects(own, row)];
    parts.push({ ...toRecord(row), schema_changes, rejects });
  }
  return parts;
}

async function readSchemaChanges(own: Kysely<OwnTables>, { run_id, resource }: RunRow): Promise<RunSchemaChange[]> {
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

/** Those that no later run has seen again, and those that this run was the first to see. */
async function readRejects(
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
  return Array.from(rows, ({ resolved_at, ...reject }) => ({ ...reject, is_resolved: resolved_at !== null }));
}

function toRecord(row: RunRow): RunRecord {
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

/** Verifications that are kept per resource. */
const MAX_VERIFICATIONS = 20;

/** Stores a verification, and removes the oldest ones of its resource. */
export async function saveVerification(own: Kysely<OwnTables>, row: VerificationRow): Promise<CompiledQuery[]> {
  const { resource, verification_id } = row;
  const kept = own.selectFrom('_sync_verifications').select('ended_at').where('resource', '=', resource);
  const newestFirst = kept.orderBy('ended_at', 'desc').limit(1);
  const oldest = await newestFirst.offset(MAX_VERIFICATIONS - 1).executeTakeFirst();
  const old = own.deleteFrom('_sync_verifications').where('resource', '=', resource);
  return [
    ...(oldest === undefined ? [] : [old.where('ended_at', '<=', oldest.ended_at).compile()]),
    old.where('verification_id', '=', verification_id).compile(),
    own.insertInto('_sync_verifications').values(row).compile(),
  ];
}
