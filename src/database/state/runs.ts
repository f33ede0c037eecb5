import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import type { ErrorReport } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { type Outcome, OUTCOMES, type RunStatus } from '../../model/vocabulary.ts';
import type { OwnTables, RunRow, TimestampText } from '../own-tables.ts';

export const NO_FIGURES = {
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

/** The figures of one resource's walk, as counted so far. */
export type RunFigures = Pick<RunRow, keyof typeof NO_FIGURES | 'forgotten'>;

export type RunStart = Pick<RunRow, 'run_id' | 'resource' | 'command' | 'mode'>;
type RunPart = Pick<RunRow, 'run_id' | 'resource'>;

/** How many attempts had which outcome. */
export type OutcomeCounts = Readonly<Partial<Record<Outcome, number>>>;

const NOTHING_FOLDED = { runs: 1, first_started_at: null, all_requests: null, all_bytes: null } as const;
const NOT_ENDED = {
  finished_at: null,
  error_code: null,
  error: null,
  error_hint: null,
  request_id: null,
  warnings: null,
  outcomes: null,
} as const;

/** Writes down that a resource is being walked; what an earlier process left as running is closed as interrupted. */
export function beginRun(own: Kysely<OwnTables>, start: RunStart, now: number): CompiledQuery[] {
  const at = timestampText(now);
  const closed = own
    .updateTable('_sync_runs')
    .set({ status: 'interrupted', finished_at: at, error_code: 'killed', error: 'the process ended without a word' })
    .where('resource', '=', start.resource)
    .where('status', '=', 'running');
  const begun = { ...start, ...NO_FIGURES, status: 'running', started_at: at } as const;
  return [
    closed.compile(),
    own
      .insertInto('_sync_runs')
      .values({ ...begun, ...NOTHING_FOLDED, ...NOT_ENDED })
      .compile(),
  ];
}

/** The figures so far, to be committed with what they count: a killed run then leaves those of what it has stored. */
export function saveFigures(own: Kysely<OwnTables>, run: RunPart, figures: RunFigures): CompiledQuery {
  return partOf(own, run).set(figures).compile();
}

function partOf(own: Kysely<OwnTables>, { run_id, resource }: RunPart) {
  return own.updateTable('_sync_runs').where('run_id', '=', run_id).where('resource', '=', resource);
}

export interface RunEnd {
  status: RunStatus;
  figures: RunFigures;
  error: ErrorReport | null;
  /** As in the report. */
  warnings: readonly { accepted?: boolean | undefined }[];
  outcomes: OutcomeCounts;
}

/** One resource's part of a run; null if there is none. */
export async function readRun(own: Kysely<OwnTables>, { run_id, resource }: RunPart): Promise<RunRow | null> {
  const part = own.selectFrom('_sync_runs').selectAll().where('run_id', '=', run_id).where('resource', '=', resource);
  return (await part.executeTakeFirst()) ?? null;
}

/** Ends of a run in which a walk came to no end: the next run takes it up. */
const UNENDED: ReadonlySet<RunRow['status']> = new Set(['running', 'interrupted', 'failed', 'deferred']);
/** Runs in a row that a walk may have taken. */
const MOST_UNENDED = 100;

/**
 * A moment at or before the beginning of the walk of a resource that ended at `endedAt`: that of the first run that it
 * may have begun in. Null if that is not known.
 */
export async function lastWalkBegan(
  own: Kysely<OwnTables>,
  resource: string,
  endedAt: TimestampText,
): Promise<TimestampText | null> {
  const runs = await own
    .selectFrom('_sync_runs')
    .select(['started_at', 'first_started_at', 'status'])
    .where('resource', '=', resource)
    .where((row) => row.fn.coalesce('first_started_at', 'started_at'), '<=', endedAt)
    .orderBy('started_at', 'desc')
    .limit(MOST_UNENDED)
    .execute();
  const [last, ...before] = runs;
  if (last === undefined) return null;
  const ended = before.findIndex(({ status }) => !UNENDED.has(status));
  if (ended === -1 && runs.length === MOST_UNENDED) return null;
  const unended = ended === -1 ? before : before.slice(0, ended);
  const first = unended.at(-1) ?? last;
  // Of runs that stand in one row, one that had begun by then.
  return first.started_at <= endedAt ? first.started_at : first.first_started_at;
}

/** A run of which the walk begins only now, because it had to wait for another resource. */
export function beginLater(own: Kysely<OwnTables>, run: RunPart, now: number): CompiledQuery {
  return partOf(own, run)
    .set({ started_at: timestampText(now) })
    .compile();
}

/** The newest run of a resource; null if there is none. */
export async function lastRun(own: Kysely<OwnTables>, resource: string): Promise<RunRow | null> {
  const row = await own
    .selectFrom('_sync_runs')
    .selectAll()
    .where('resource', '=', resource)
    .orderBy('started_at', 'desc')
    .orderBy('run_id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row ?? null;
}

/** Requests of a resource's newest run of a mode that came to its end; null if there is none. */
export async function requestsOfLast(
  own: Kysely<OwnTables>,
  resource: string,
  mode: RunRow['mode'],
): Promise<number | null> {
  const runs = own.selectFrom('_sync_runs').select('requests').where('resource', '=', resource);
  const ended = runs.where('mode', '=', mode).where('status', 'in', ['ok', 'partial']);
  const last = await ended.orderBy('started_at', 'desc').limit(1).executeTakeFirst();
  return last?.requests ?? null;
}

/**
 * The statements that write down how a run has ended. `before` is the row that its own takes in, if there is one that
 * says nothing else (`foldsWith`): both stand in one row from then on.
 */
export function endRun(
  own: Kysely<OwnTables>,
  run: RunStart,
  end: RunEnd,
  now: number,
  before: RunRow | null = null,
): CompiledQuery[] {
  const ended = partOf(own, run).set({
    ...end.figures,
    mode: run.mode,
    status: end.status,
    finished_at: timestampText(now),
    error_code: end.error?.code ?? null,
    error: end.error?.message ?? null,
    error_hint: end.error?.hint ?? null,
    request_id: end.error?.request_id ?? null,
    warnings: warningsText(end),
    outcomes: JSON.stringify(end.outcomes),
    ...(before === null ? {} : foldedWith(before, end)),
  });
  return [...(before === null ? [] : [forgetRun(own, before)]), ended.compile()];
}

/** Adds to a run that has ended what came of something behind its walk; `warnings` are all of them. */
export function tellOfRun(
  own: Kysely<OwnTables>,
  run: RunPart,
  { status, warnings }: Pick<RunRow, 'status'> & Pick<RunEnd, 'warnings'>,
): CompiledQuery {
  return partOf(own, run)
    .set({ status, warnings: warningsText({ warnings }) })
    .compile();
}

function forgetRun(own: Kysely<OwnTables>, { run_id, resource }: RunRow): CompiledQuery {
  return own.deleteFrom('_sync_runs').where('run_id', '=', run_id).where('resource', '=', resource).compile();
}

function warningsText({ warnings }: Pick<RunEnd, 'warnings'>): string | null {
  return warnings.length === 0 ? null : JSON.stringify(warnings);
}

const CHANGES = ['inserted', 'updated', 'rejected', 'deleted', 'held'] as const;

/** True for a run that has ended well and changed nothing; what it warns of is accepted. */
export function isQuiet({ status, figures, warnings }: Pick<RunEnd, 'status' | 'figures' | 'warnings'>): boolean {
  const isAccepted = warnings.every(({ accepted }) => accepted === true);
  return status === 'ok' && isAccepted && CHANGES.every((name) => figures[name] === 0);
}

/** True if the row of a quiet run says nothing that is not said by that of the one before, but for times and sums. */
export function foldsWith(before: RunRow, run: RunStart, end: RunEnd): boolean {
  const isAlike = before.command === run.command && before.mode === run.mode && before.warnings === warningsText(end);
  return isAlike && before.status === 'ok' && CHANGES.every((name) => before[name] === 0);
}

/** What the row of a run is given that takes in the one before it. */
function foldedWith(before: RunRow, { figures, outcomes }: RunEnd): Partial<RunRow> {
  return {
    runs: before.runs + 1,
    first_started_at: before.first_started_at ?? before.started_at,
    all_requests: (before.all_requests ?? before.requests) + figures.requests,
    all_bytes: (before.all_bytes ?? before.bytes) + figures.bytes,
    outcomes: JSON.stringify(sumOf(outcomesOf(before), outcomes)),
  };
}

/** Attempts of all runs of a row by outcome; empty if they were not counted. */
export function outcomesOf({ outcomes }: Pick<RunRow, 'outcomes'>): OutcomeCounts {
  return outcomes === null ? {} : outcomeCounts.parse(JSON.parse(outcomes));
}

const outcomeCounts = z.partialRecord(z.enum(OUTCOMES), z.number());

function sumOf(one: OutcomeCounts, other: OutcomeCounts): OutcomeCounts {
  const both = OUTCOMES.map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)] as const);
  return Object.fromEntries(both.filter(([, count]) => count > 0));
}

/**
 * The statement that removes runs of a resource that ended more than `keepMs` ago: all but `run`, the newest, and those
 * in which the last walk that came to its end was made (`lastWalkBegan` looks for them).
 */
export function forgetOldRuns(
  own: Kysely<OwnTables>,
  { run_id, resource }: RunPart,
  keepMs: number,
  now: number,
): CompiledQuery {
  const success = own.selectFrom('_sync_checkpoints').select('last_success_at').where('resource', '=', resource);
  // The end before the last one: what began later may belong to the walk that made it.
  const before = own
    .selectFrom('_sync_runs as ended')
    .select('ended.started_at')
    .where('ended.resource', '=', resource)
    .where('ended.status', 'in', ['ok', 'partial'])
    .where('ended.started_at', '<=', success)
    .orderBy('ended.started_at', 'desc')
    .limit(1)
    .offset(1);
  return own
    .deleteFrom('_sync_runs')
    .where('resource', '=', resource)
    .where('run_id', '<>', run_id)
    .where('finished_at', '<', timestampText(now - keepMs))
    .where((row) =>
      row.or([
        row.not(row.exists(success.where('last_success_at', 'is not', null))),
        row('started_at', '>', success),
        row('started_at', '<=', before),
      ]),
    )
    .compile();
}
