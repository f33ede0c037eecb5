import type { Logger } from 'pino';
import type { RunFigures } from '../database/state/runs.ts';
import type { AttemptEvent } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { RowResultCounts, SourceActivity } from '../observe/activity.ts';
import type { FileResult, RowResult } from '../observe/metrics.ts';
import type { SettledFile } from '../sync/files/file-changes.ts';
import type { RunNotes, RunWatcher } from '../sync/report.ts';
import type { DrainEvent, DrainOutcome } from './inbox/drain.ts';

/** Called with everything that happens in a source. Must not throw. */
export interface SourceWatcher extends RunWatcher {
  attempted(this: void, event: AttemptEvent): void;
  settled(event: DrainEvent): void;
  /** Called with fetched files, once their results are stored. */
  filesAsked(this: void, settled: readonly SettledFile[]): void;
  /** Called when an error stops all files, and with null when they resume. */
  filesStand(error: unknown): void;
}

/** Passes what happens to the activity and the log; `allowedPerSecond` is the current limit estimate. */
export function sourceWatcher(
  activity: SourceActivity,
  logged: RunWatcher,
  allowedPerSecond: () => number | null,
): SourceWatcher {
  const both = [activityWatcher(activity), logged];
  return {
    started: (...event) => both.forEach((each) => each.started(...event)),
    page: (...event) => both.forEach((each) => each.page(...event)),
    ended: (...event) => both.forEach((each) => each.ended(...event)),
    attempted: (event) => activity.attempted(event, allowedPerSecond()),
    settled: (event) => countDelivered(activity, event),
    filesAsked: (settled) => {
      for (const { row, outcome } of settled) {
        const result = FILE_RESULTS[outcome.is];
        if (result !== null) activity.fileAsked(row.resource, result, outcome.is === 'here' ? outcome.fetched : 0);
      }
    },
    filesStand: (error) => {
      const { code, hint = null } = error instanceof SyncError ? error : { code: 'bug' };
      activity.filesStand(error === null ? null : { code, message: messageOf(error), hint });
    },
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

/** Counts syncs in the activity of a source. */
export function activityWatcher(activity: SourceActivity): RunWatcher {
  const records = new Map<string, number>();
  return {
    started: (resource, { mode, checkpoint }) => {
      records.set(resource, checkpoint.walk_records);
      const update = { records: checkpoint.walk_records, pages: checkpoint.walk_pages, requests: 0, total: null };
      activity.walkStarted(resource, mode, update);
    },
    page: (resource, page, figures) => {
      const all = (records.get(resource) ?? 0) + page.records.length;
      records.set(resource, all);
      const update = { records: all, pages: page.number, requests: figures.requests, total: page.total };
      activity.walkPage(resource, update, rowCounts(figures), figures.pages);
    },
    ended: ({ resource, mode, status, seconds, error: report, ...figures }) => {
      const { pages } = figures;
      const error = report ? { code: report.code, message: report.message, hint: report.hint ?? null } : null;
      activity.walkEnded(resource, { mode, status, seconds, pages, counts: rowCounts(figures), error });
    },
  };
}

function rowCounts({ inserted, updated, unchanged, rejected, deleted }: RunFigures): RowResultCounts {
  return { inserted, updated, unchanged, rejected, deleted };
}

/** The result of the row by the final outcome of its delivery; null if no row changed. Other outcomes are not final. */
const DELIVERY_RESULTS: Readonly<Partial<Record<DrainOutcome, RowResult | null>>> = {
  loaded: 'updated',
  unchanged: 'unchanged',
  rejected: 'rejected',
  deleted: 'deleted',
  absent: null,
  scanned: null,
};

/** Counts settled deliveries in the activity of a source. */
export function countDelivered(activity: SourceActivity, { outcome, ...event }: DrainEvent): void {
  const result = DELIVERY_RESULTS[outcome];
  if (result !== undefined) activity.delivered({ ...event, result });
}

/** A sync in progress is logged at most this often. */
const LOG_INTERVAL_MS = 10_000;

const NOTE_MESSAGES: readonly [note: keyof RunNotes, message: string][] = [
  ['went_back', 'rows were replaced by an older state of their record'],
  ['overflowed', 'values are stored in _overflow, because the table has max_columns'],
  ['discarded', 'values were left out, because the contract does not let the table change'],
  ['repaired', 'cells had a NUL or half a surrogate pair replaced; the stored version has them as sent'],
];

/** Logs each sync when it begins (at `startLevel`), every few seconds, and when it ends. */
export function logWalks(log: Logger, clock: Clock, startLevel: 'info' | 'debug'): RunWatcher {
  const loggedAt = new Map<string, number>();
  return {
    started: (resource, { mode, resumed, checkpoint }) => {
      log[startLevel]({ resource, mode, resumed, pages_before: checkpoint.walk_pages }, 'walk started');
      loggedAt.set(resource, clock.monotonic());
    },
    page: (resource, page, figures) => {
      const at = clock.monotonic();
      if (at - (loggedAt.get(resource) ?? at) < LOG_INTERVAL_MS) return;
      loggedAt.set(resource, at);
      log.info({ resource, ...figures, total: page.total }, 'walk under way');
    },
    ended: (report, notes, error) => {
      const { resource } = report;
      const level = report.status === 'ok' ? 'info' : report.status === 'failed' ? 'error' : 'warn';
      // The log adds the stack of a bug.
      log[level]({ ...report, ...(report.error?.code === 'bug' ? { error } : {}) }, `walk ${report.status}`);
      for (const { message, ...warning } of report.warnings ?? []) log.warn({ resource, ...warning }, message);
      for (const [note, message] of NOTE_MESSAGES) {
        if (notes[note] > 0) log.warn({ resource, [note]: notes[note] }, message);
      }
    },
  };
}
