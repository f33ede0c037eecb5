import type { Logger } from 'pino';
import type { RunFigures } from '../database/state/runs.ts';
import type { AttemptEvent } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { RowResultCounts, SourceActivity, WalkError } from '../observe/activity.ts';
import type { FileResult, RowResult } from '../observe/metrics.ts';
import type { SettledFile } from '../sync/files/file-changes.ts';
import type { RefetchOutcome } from '../sync/refetch.ts';
import type { RunNotes, RunWatcher } from '../sync/report.ts';
import type { DrainEvent, DrainOutcome } from './inbox/drain.ts';

/** Called with everything that happens in a source. Must not throw. */
export interface SourceWatcher extends RunWatcher {
  attempted(event: AttemptEvent): void;
  settled(event: DrainEvent): void;
  /** Called with files that were asked for, once it is remembered what came of them. */
  filesAsked(settled: readonly SettledFile[]): void;
  /** Called when all files stand still for an error, and with null when they go on. */
  filesStand(error: unknown): void;
}

/** Writes what happens to the activity and the log; `allowedPerSecond` reads the rate that the service allows now. */
export function sourceWatcher(
  activity: SourceActivity,
  logged: RunWatcher,
  allowedPerSecond: () => number | null,
): SourceWatcher {
  const both = [activityWatcher(activity), logged];
  return {
    started: (...told) => both.forEach((each) => each.started(...told)),
    page: (...told) => both.forEach((each) => each.page(...told)),
    ended: (...told) => both.forEach((each) => each.ended(...told)),
    attempted: (event) => activity.attempted(event, allowedPerSecond()),
    settled: (event) => noteDelivered(activity, event),
    filesAsked: (settled) => settled.forEach((file) => noteFile(activity, file)),
    filesStand: (error) => activity.filesStand(error === null ? null : errorOf(error)),
  };
}

const FILE_RESULTS: Readonly<Record<SettledFile['outcome']['is'], FileResult | null>> = {
  here: 'stored',
  unchanged: 'unchanged',
  failed: 'failed',
  refused: 'refused',
  gone: 'gone',
  'put off': null,
};

function noteFile(activity: SourceActivity, { row, outcome }: SettledFile): void {
  const result = FILE_RESULTS[outcome.is];
  if (result !== null) activity.fileAsked(row.resource, result, outcome.is === 'here' ? outcome.fetched : 0);
}

function errorOf(error: unknown): WalkError {
  const isOurs = error instanceof SyncError;
  return { code: isOurs ? error.code : 'bug', message: messageOf(error), hint: isOurs ? (error.hint ?? null) : null };
}

/** Counts walks in the activity of a source. */
export function activityWatcher(activity: SourceActivity): RunWatcher {
  const records = new Map<string, number>();
  return {
    started: (resource, { mode, checkpoint }) => {
      records.set(resource, checkpoint.walk_records);
      const news = { records: checkpoint.walk_records, pages: checkpoint.walk_pages, requests: 0, total: null };
      activity.walkStarted(resource, mode, news);
    },
    page: (resource, page, figures) => {
      const all = (records.get(resource) ?? 0) + page.records.length;
      records.set(resource, all);
      const news = { records: all, pages: page.number, requests: figures.requests, total: page.total };
      activity.walkPage(resource, news, countsOf(figures), figures.pages);
    },
    ended: ({ resource, mode, status, seconds, error, ...figures }) => {
      const { code, message, hint } = error ?? { code: '', message: '' };
      const said = error === undefined ? null : { code, message, hint: hint ?? null };
      const { pages } = figures;
      activity.walkEnded(resource, { mode, status, seconds, pages, counts: countsOf(figures), error: said });
    },
  };
}

function countsOf({ inserted, updated, unchanged, rejected, deleted }: RunFigures): RowResultCounts {
  return { inserted, updated, unchanged, rejected, deleted };
}

/** How each outcome of a refetch counts for its row; the others changed no row, or a walk counts them. */
const RESULTS: Readonly<Partial<Record<DrainOutcome, RowResult>>> = {
  loaded: 'updated',
  unchanged: 'unchanged',
  rejected: 'rejected',
  deleted: 'deleted',
} satisfies Partial<Record<RefetchOutcome, RowResult>>;

/** Final outcomes: only they have a delay from receipt to row. */
const ENDS: ReadonlySet<DrainOutcome> = new Set(['loaded', 'unchanged', 'rejected', 'deleted', 'absent', 'walked']);

/** Counts settled deliveries in the activity of a source. */
export function noteDelivered(activity: SourceActivity, { outcome, ...event }: DrainEvent): void {
  if (ENDS.has(outcome)) activity.delivered({ ...event, result: RESULTS[outcome] ?? null });
}

/** A walk under way is logged at most this often. */
const LOG_EVERY_MS = 10_000;

/** The log message of each note. */
const NOTES: readonly [note: keyof RunNotes, text: string][] = [
  ['went_back', 'rows were replaced by an older state of their record'],
  ['overflowed', 'values are kept in _overflow, because the table has max_columns'],
  ['discarded', 'values were left out, because the contract does not let the table change'],
  ['repaired', 'cells had a NUL or half a surrogate pair replaced; the stored version has them as sent'],
];

/**
 * Logs each walk when it begins (at `startLevel`), now and then while it goes on, and when it ends. Pass `once` if all
 * walks belong to one run: an error that they share is then written out only once.
 */
export function logWalks(log: Logger, clock: Clock, startLevel: 'info' | 'debug'): RunWatcher {
  const loggedAt = new Map<string, number>();
  return {
    started: (resource, { mode, resumed, checkpoint }) => {
      log[startLevel]({ resource, mode, resumed, pages_before: checkpoint.walk_pages }, 'walk started');
      loggedAt.set(resource, clock.monotonic());
    },
    page: (resource, page, figures) => {
      const at = clock.monotonic();
      if (at - (loggedAt.get(resource) ?? at) < LOG_EVERY_MS) return;
      loggedAt.set(resource, at);
      log.info({ resource, ...figures, total: page.total }, 'walk under way');
    },
    ended: (report, notes, error) => {
      const level = report.status === 'ok' ? 'info' : report.status === 'failed' ? 'error' : 'warn';
      // An error without a code of ours is a bug, whose stack helps: the log writes it out.
      const isBug = report.error?.code === 'bug';
      log[level]({ ...report, ...(isBug ? { error } : {}) }, `walk ${report.status}`);
      for (const { message, ...warning } of report.warnings ?? []) {
        log.warn({ resource: report.resource, ...warning }, message);
      }
      for (const [note, text] of NOTES) {
        if (notes[note] > 0) log.warn({ resource: report.resource, [note]: notes[note] }, text);
      }
    },
  };
}
