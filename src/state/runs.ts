import type { CompiledQuery, Kysely } from 'kysely';
import type { ErrorReport } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { Outcome, RunStatus } from '../model/vocabulary.ts';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';
import type { RunRow } from '../warehouse/run-row.ts';

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

/**
 * Writes down that a resource is being walked; what an earlier process left as running is closed as interrupted, unless
 * it is known that there is none (`isClean`).
 */
export function beginRun(own: Kysely<OwnTables>, start: RunStart, now: number, isClean = false): CompiledQuery[] {
  const at = timestampText(now);
  const closed = own
    .updateTable('_sync_runs')
    .set({ status: 'interrupted', finished_at: at, error_code: 'killed', error: 'the process ended without a word' })
    .where('resource', '=', start.resource)
    .where('status', '=', 'running');
  const begun = { ...start, ...NO_FIGURES, status: 'running', started_at: at } as const;
  return [
    ...(isClean ? [] : [closed.compile()]),
    own
      .insertInto('_sync_runs')
      .values({ ...begun, ...NOTHING_FOLDED, ...NOT_ENDED })
      .compile(),
  ];
}

type RunPart = Pick<RunStart, 'run_id' | 'resource'>;

/** The figures so far, to be committed with what they count: a killed run then leaves those of what it has stored. */
export function saveFigures(own: Kysely<OwnTables>, { run_id, resource }: RunPart, figures: RunFigures): CompiledQuery {
  const part = own.updateTable('_sync_runs').set(figures);
  return part.where('run_id', '=', run_id).where('resource', '=', resource).compile();
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
export async function readRun(
  own: Kysely<OwnTables>,
  { run_id, resource }: Pick<RunStart, 'run_id' | 'resource'>,
): Promise<RunRow | null> {
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
export function beginLater(
  own: Kysely<OwnTables>,
  run: Pick<RunStart, 'run_id' | 'resource'>,
  now: number,
): CompiledQuery {
  return own
    .updateTable('_sync_runs')
    .set({ started_at: timestampText(now) })
    .where('run_id', '=', run.run_id)
    .where('resource', '=', run.resource)
    .compile();
}

/** A run, and how many of its resource say that they are under way. */
export type LastRun = RunRow & { under_way: number };

/** The newest run of a resource; null if there is none. */
export async function lastRun(own: Kysely<OwnTables>, resource: string): Promise<LastRun | null> {
  const row = await own
    .selectFrom('_sync_runs')
    .selectAll()
    .select((select) =>
      select
        .selectFrom('_sync_runs as other')
        .select((count) => count.fn.countAll<number>().as('count'))
        .where('other.resource', '=', resource)
        .where('other.status', '=', 'running')
        .$asScalar()
        .$notNull()
        .as('under_way'),
    )
    .where('resource', '=', resource)
    .orderBy('started_at', 'desc')
    .orderBy('run_id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row ?? null;
}

/** Runs of which the mean is taken. */
const RUNS_OF_MEAN = 50;

/** Requests of a resource's last runs of a kind that came to their end, on average; null if there was none. */
export async function averageRequests(
  own: Kysely<OwnTables>,
  resource: string,
  mode: RunRow['mode'],
): Promise<number | null> {
  const runs = own
    .selectFrom('_sync_runs')
    .select('requests')
    .where('resource', '=', resource)
    .where('mode', '=', mode);
  const ended = runs.where('status', 'in', ['ok', 'partial']).orderBy('started_at', 'desc').limit(RUNS_OF_MEAN);
  const rows = await ended.execute();
  return rows.length === 0 ? null : rows.reduce((sum, { requests }) => sum + requests, 0) / rows.length;
}
