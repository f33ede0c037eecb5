// Writes the start, progress and end of each run to the log.
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { RunNotes, RunWatcher } from '../sync/report.ts';

/** A scan in progress is logged at most this often. */
const LOG_INTERVAL_MS = 10_000;

const NOTE_MESSAGES: readonly [note: keyof RunNotes, message: string][] = [
  ['went_back', 'rows were replaced by an older state of their record'],
  ['overflowed', 'values are stored in _overflow, because the table has max_columns'],
  ['discarded', 'values were left out, because the contract does not let the table change'],
  ['repaired', 'cells had a NUL or half a surrogate pair replaced; the stored version has them as sent'],
];

/** Logs each scan when it begins (at `startLevel`), every few seconds, and when it ends. */
export function logRuns(log: Logger, clock: Clock, startLevel: 'info' | 'debug'): RunWatcher {
  const loggedAt = new Map<string, number>();
  return {
    started: (resource, { mode, resumed, checkpoint }) => {
      log[startLevel]({ resource, mode, resumed, pages_before: checkpoint.walk_pages }, 'scan started');
      loggedAt.set(resource, clock.monotonic());
    },
    page: (resource, page, counters) => {
      const at = clock.monotonic();
      if (at - (loggedAt.get(resource) ?? at) < LOG_INTERVAL_MS) return;
      loggedAt.set(resource, at);
      log.info({ resource, ...counters, total: page.total }, 'scan in progress');
    },
    ended: (report, notes, error) => {
      const { resource } = report;
      const level = report.status === 'ok' ? 'info' : report.status === 'failed' ? 'error' : 'warn';
      // The log adds the stack of a bug.
      log[level]({ ...report, ...(report.error?.code === 'bug' ? { error } : {}) }, `scan ${report.status}`);
      for (const { message, ...warning } of report.warnings ?? []) log.warn({ resource, ...warning }, message);
      for (const [note, message] of NOTE_MESSAGES) {
        if (notes[note] > 0) log.warn({ resource, [note]: notes[note] }, message);
      }
    },
  };
}

/** Calls all of these watchers with everything that happens in a run. */
export function combineWatchers(...watchers: readonly RunWatcher[]): RunWatcher {
  return {
    started: (...event) => watchers.forEach((each) => each.started(...event)),
    page: (...event) => watchers.forEach((each) => each.page(...event)),
    ended: (...event) => watchers.forEach((each) => each.ended(...event)),
  };
}
