// The history of runs, which users read with `content-sync runs`: a row of `_sync_runs` is one resource's part in a run. Of
// consecutive runs that changed nothing only the last one is stored: a source that is synced every minute would hide its
// few changes among thousands of rows. A function that returns statements (`CompiledQuery`) does not run them: the caller
// commits them in one transaction with the rows that they describe.
import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import type { ErrorReport } from '../../model/errors.ts';
import { type ColumnChange, toColumnChange } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { type Outcome, OUTCOMES, type RunStatus } from '../../model/vocabulary.ts';
import type { OwnTables, RejectRow, RunRow, TimestampText, VerificationRow } from '../own-tables.ts';

/** The counters at the start of a run. */
export const NO_COUNTERS = {
  pages: 0,
  requests: 0,
  records: 0,
  inserted: 0,
  updated: 0,
  unchanged: 0,
  rejected: 0,
  deleted: 0,
  held: 0,
  retries: 0,
  limited: 0,
  bytes: 0,
} satisfies Partial<RunRow>;

/** The counters of one resource's scan so far. */
export type RunCounters = Pick<RunRow, keyof typeof NO_COUNTERS | 'forgotten'>;

export type RunStart = Pick<RunRow, 'run_id' | 'resource' | 'command' | 'mode'>;
/** Identifies one resource's part in a run. */
type RunPart = Pick<RunRow, 'run_id' | 'resource'>;

/** Number of attempts by outcome. */
type OutcomeCounts = Readonly<Partial<Record<Outcome, number>>>;

/** Columns of a run that has not ended. */
const NOT_ENDED = {
  finished_at: null,
  error_code: null,
  error: null,
  error_hint: null,
  request_id: null,
  warnings: null,
  outcomes: null,
} as const;

/** Stores the start of a run. A run that is still stored as running was killed: it is stored as interrupted. */
export function beginRun(own: Kysely<OwnTables>, start: RunStart, now: number): CompiledQuery[] {
  const at = timestampText(now);
  const interrupted = own
    .updateTable('_sync_runs')
    .set({
      status: 'interrupted',
      finished_at: at,
      error_code: 'interrupted',
      error: 'the process ended without a word',
    })
    .where('resource', '=', start.resource)
    .where('status', '=', 'running');
  const row = { ...start, ...NO_COUNTERS, ...NOT_ENDED, status: 'running', started_at: at } as const;
  return [interrupted.compile(), own.insertInto('_sync_runs').values(row).compile()];
}

function updateRun(own: Kysely<OwnTables>, { run_id, resource }: RunPart, update: Partial<RunRow>): CompiledQuery {
  const part = own.updateTable('_sync_runs').where('run_id', '=', run_id).where('resource', '=', resource);
  return part.set(update).compile();
}

/** Stores the counters with each page of rows, so that they are right after a kill. */
export function saveCounters(own: Kysely<OwnTables>, run: RunPart, counters: RunCounters): CompiledQuery {
  return updateRun(own, run, counters);
}

/** Stores a later start, for a scan that had to wait for that of another resource. */
export function beginLater(own: Kysely<OwnTables>, run: RunPart, now: number): CompiledQuery {
  return updateRun(own, run, { started_at: timestampText(now) });
}

/** Updates a finished run after its files were fetched; `warnings` are all warnings of the run. */
export function updateFinishedRun(
  own: Kysely<OwnTables>,
  run: RunPart,
  status: RunRow['status'],
  warnings: RunEnd['warnings'],
): CompiledQuery {
  return updateRun(own, run, { status, warnings: warningsText(warnings) });
}

/** How a resource's part in a run ended. */
export interface RunEnd {
  status: RunStatus;
  counters: RunCounters;
  error: ErrorReport | null;
  warnings: readonly { accepted?: boolean | undefined }[];
  outcomes: OutcomeCounts;
}

/** Reads the newest run of a resource; null if there is none. */
export async function lastRun(own: Kysely<OwnTables>, resource: string): Promise<RunRow | null> {
  const runs = own.selectFrom('_sync_runs').selectAll().where('resource', '=', resource);
  return (await runs.orderBy('started_at', 'desc').orderBy('run_id', 'desc').limit(1).executeTakeFirst()) ?? null;
}

/** The scan of a run with such a status is unfinished, and the next run resumes it. */
const UNFINISHED_STATUSES: ReadonlySet<RunRow['status']> = new Set(['running', 'interrupted', 'failed', 'deferred']);
/** The maximum number of runs that are read to find the first one of a scan. */
const MAX_RUNS_PER_SCAN = 100;

/**
 * Returns a time at or before the start of the scan that ended at `endedAt`. A scan may take several runs, if some were
 * interrupted: the time is the start of the first one. Null if that is unknown.
 */
export async function lastScanStart(
  own: Kysely<OwnTables>,
  resource: string,
  endedAt: TimestampText,
): Promise<TimestampText | null> {
  const runs = await own
    .selectFrom('_sync_runs')
    .select(['started_at', 'status'])
    .where('resource', '=', resource)
    .where('started_at', '<=', endedAt)
    .orderBy('started_at', 'desc')
    .limit(MAX_RUNS_PER_SCAN)
    .execute();
  const [last, ...before] = runs;
  if (last === undefined) return null;
  const otherScan = before.findIndex(({ status }) => !UNFINISHED_STATUSES.has(status));
  if (otherScan === -1 && runs.length === MAX_RUNS_PER_SCAN) return null;
  const resumed = otherScan === -1 ? before : before.slice(0, otherScan);
  return (resumed.at(-1) ?? last).started_at;
}

/** Stores the end of a run; `replaced` is the run before it, which is removed if it also changed nothing (`repeatsRun`). */
export function endRun(
  own: Kysely<OwnTables>,
  run: RunStart,
  end: RunEnd,
  now: number,
  replaced: RunRow | null = null,
): CompiledQuery[] {
  const ended = updateRun(own, run, {
    ...end.counters,
    mode: run.mode,
    status: end.status,
    finished_at: timestampText(now),
    error_code: end.error?.code ?? null,
    error: end.error?.message ?? null,
    error_hint: end.error?.hint ?? null,
    request_id: end.error?.request_id ?? null,
    warnings: warningsText(end.warnings),
    outcomes: JSON.stringify(end.outcomes),
  });
  if (replaced === null) return [ended];
  const removed = own.deleteFrom('_sync_runs').where('run_id', '=', replaced.run_id);
  return [removed.where('resource', '=', replaced.resource).compile(), ended];
}

function warningsText(warnings: RunEnd['warnings']): string | null {
  return warnings.length === 0 ? null : JSON.stringify(warnings);
}

/** The counters of changes; the others count traffic. */
const CHANGE_COUNTERS = ['inserted', 'updated', 'rejected', 'deleted', 'held'] as const;

/** True for a successful run that changed nothing, and whose warnings are all accepted. */
export function changedNothing({ status, counters, warnings }: RunEnd): boolean {
  const isAccepted = warnings.every(({ accepted }) => accepted === true);
  return status === 'ok' && isAccepted && CHANGE_COUNTERS.every((name) => counters[name] === 0);
}

/** True if a run that changed nothing differs from the one before only in times and traffic. */
export function repeatsRun(before: RunRow, run: RunStart, end: RunEnd): boolean {
  const isAlike =
    before.command === run.command && before.mode === run.mode && before.warnings === warningsText(end.warnings);
  return isAlike && before.status === 'ok' && CHANGE_COUNTERS.every((name) => before[name] === 0);
}

/**
 * Removes the runs of a resource that ended more than `keepMs` ago, except `run` and those of the last successful scan,
 * which `lastScanStart` reads.
 */
export function forgetOldRuns(
  own: Kysely<OwnTables>,
  { run_id, resource }: RunPart,
  keepMs: number,
  now: number,
): CompiledQuery {
  const lastSuccess = own.selectFrom('_sync_checkpoints').select('last_success_at').where('resource', '=', resource);
  // All runs after the last but one that finished a scan may be part of the last scan.
  const lastButOneFinished = own
    .selectFrom('_sync_runs as finished')
    .select('finished.started_at')
    .where('finished.resource', '=', resource)
    .where('finished.status', 'in', ['ok', 'partial'])
    .where('finished.started_at', '<=', lastSuccess)
    .orderBy('finished.started_at', 'desc')
    .limit(1)
    .offset(1);
  return own
    .deleteFrom('_sync_runs')
    .where('resource', '=', resource)
    .where('run_id', '<>', run_id)
    .where('finished_at', '<', timestampText(now - keepMs))
    .where((row) =>
      row.or([
        row.not(row.exists(lastSuccess.where('last_success_at', 'is not', null))),
        row('started_at', '>', lastSuccess),
        row('started_at', '<=', lastButOneFinished),
      ]),
    )
    .compile();
}

/** A stored warning; `accepted` if the profile accepts it. */
export interface StoredWarning {
  code: string;
  message: string;
  hint: string;
  accepted?: boolean | undefined;
}

/** One resource's part in a run. Times are epoch milliseconds. */
export interface RunRecord extends RunCounters, Pick<RunRow, 'run_id' | 'resource' | 'command' | 'mode' | 'status'> {
  started_at: number;
  /** Null while it runs. */
  finished_at: number | null;
  /** Attempts by outcome; empty if they were not counted. */
  outcomes: OutcomeCounts;
  /** `request_id` is of the service's response. */
  error: { code: string; message: string; hint: string | null; request_id: string | null } | null;
  warnings: StoredWarning[];
}

/** Selects the runs that are read. */
interface RunChoice {
  /** Only runs of this resource, or of these; of all if absent. */
  resource?: string | readonly string[] | undefined;
  /** Only runs that failed or were partial, deferred or interrupted. */
  failed?: boolean | undefined;
  /** Only runs that were running at this time or later, epoch milliseconds. */
  since?: number | undefined;
  /** Only finished runs. */
  ended?: boolean;
  limit: number;
}

/** Reads past and current runs, the newest first. */
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

/** Reads the newest finished run of a resource; null if there is none. */
export async function lastEndedRun(own: Kysely<OwnTables>, resource: string): Promise<RunRecord | null> {
  return (await readRuns(own, { resource, ended: true, limit: 1 }))[0] ?? null;
}

/** A column that a run has added or changed. */
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
  /** At most `MAX_RUN_REJECTS`; `rejected` counts all. */
  rejects: RunReject[];
}

/** The maximum number of rejects that are read of one run. */
export const MAX_RUN_REJECTS = 50;

/** Reads the parts of all resources in one run, by name; none if there is no such run, or a later one has replaced it. */
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

/** Reads the rejects that this run was the last to see, or the first. */
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
    .limit(MAX_RUN_REJECTS)
    .execute();
  return Array.from(rows, ({ resolved_at, ...reject }) => ({ ...reject, is_resolved: resolved_at !== null }));
}

function toRecord(row: RunRow): RunRecord {
  const { error_code, error, error_hint, request_id, warnings, outcomes, runs: _1, ...others } = row;
  const { first_started_at: _2, all_requests: _3, all_bytes: _4, ...rest } = others;
  return {
    ...rest,
    started_at: timestampMs(row.started_at),
    finished_at: row.finished_at === null ? null : timestampMs(row.finished_at),
    outcomes: outcomes === null ? {} : storedOutcomes.parse(JSON.parse(outcomes)),
    error: error_code === null ? null : { code: error_code, message: error ?? '', hint: error_hint, request_id },
    warnings: warnings === null ? [] : storedWarnings.parse(JSON.parse(warnings)),
  };
}

const storedOutcomes = z.partialRecord(z.enum(OUTCOMES), z.number());
const storedWarnings = z.array(
  z.object({ code: z.string(), message: z.string(), hint: z.string(), accepted: z.boolean().optional() }),
);

/** The number of verifications that are stored per resource. */
const MAX_VERIFICATIONS = 20;

/** Stores a verification, and removes the oldest ones of its resource. */
export async function saveVerification(own: Kysely<OwnTables>, row: VerificationRow): Promise<CompiledQuery[]> {
  const { resource, verification_id } = row;
  const stored = own.selectFrom('_sync_verifications').select('ended_at').where('resource', '=', resource);
  const newestFirst = stored.orderBy('ended_at', 'desc').limit(1);
  const surplus = await newestFirst.offset(MAX_VERIFICATIONS - 1).executeTakeFirst();
  const remove = own.deleteFrom('_sync_verifications').where('resource', '=', resource);
  return [
    ...(surplus === undefined ? [] : [remove.where('ended_at', '<=', surplus.ended_at).compile()]),
    remove.where('verification_id', '=', verification_id).compile(),
    own.insertInto('_sync_verifications').values(row).compile(),
  ];
}
