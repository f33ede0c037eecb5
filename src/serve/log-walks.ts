import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { RunNotes } from '../sync/report.ts';
import type { RunWatcher } from '../sync/run-options.ts';
import type { reportOnce } from '../observe/report-once.ts';

/** A log line about a resource that is still going on, at most this often. */
const LOG_EVERY_MS = 10_000;

/** What the operator is told of each note. */
const NOTES: readonly [note: keyof RunNotes, text: string][] = [
  ['went_back', 'rows were replaced by an older state of their record'],
  ['overflowed', 'values are kept in _overflow, because the table has max_columns'],
  ['discarded', 'values were left out, because the contract does not let the table change'],
  ['repaired', 'cells had a NUL or half a surrogate pair replaced; the stored version has them as sent'],
  ['older_copies', 'records stood on a page beside a newer state of theirs, which was kept'],
];

/**
 * Writes a line for each walk that ends, one now and then while it goes on, and one when it begins (at that level).
 * `once`, where the walks are those of one run, keeps a fault that they share from being told with each of them.
 */
export function logWalks(
  log: Logger,
  clock: Clock,
  startLevel: 'info' | 'debug',
  once: ReturnType<typeof reportOnce> = (_, fault) => fault,
): RunWatcher {
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
      // Without a code of ours it is a bug: then the stack is what helps. `err` is the key that has one written out.
      const isBug = report.error?.code === 'bug';
      const said = report.error && { error: { code: report.error.code, ...once(report.resource, report.error) } };
      log[level]({ ...report, ...said, ...(isBug ? { err: error } : {}) }, `walk ${report.status}`);
      for (const { message, ...warning } of report.warnings ?? []) {
        log.warn({ resource: report.resource, ...warning }, message);
      }
      for (const [note, text] of NOTES) {
        if (notes[note] > 0) log.warn({ resource: report.resource, [note]: notes[note] }, text);
      }
    },
  };
}
