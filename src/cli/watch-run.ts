import type { Logger } from 'pino';
import type { App } from '../app.ts';
import { createLiveLines } from '../observe/live-lines.ts';
import {
  advanceResource,
  endResource,
  startResource,
  waitingResource,
  type ProgressSnapshot,
  type ResourceProgress,
} from '../observe/progress.ts';
import type { RunNotes } from '../sync/report.ts';
import type { RunWatcher } from '../sync/run-options.ts';
import type { CliContext } from './context.ts';

/** A log line about a resource that is still going on, at most this often. */
const LOG_EVERY_MS = 10_000;

/** What the operator is told of each note. */
const NOTES: readonly [note: keyof RunNotes, text: string][] = [
  ['went_back', 'rows were replaced by an older state of their record'],
  ['overflowed', 'values are kept in _overflow, because the table has max_columns'],
  ['discarded', 'values were left out, because the contract does not let the table change'],
  ['repaired', 'cells had a NUL or half a surrogate pair replaced; the stored version has them as sent'],
];

interface WatchOptions {
  context: CliContext;
  log: Logger;
  app: App;
  resources: readonly string[];
  /** False where a person asked for the log: it takes the place of the live lines. */
  live: boolean;
}

/** Shows a run while it goes on: live lines on a terminal, log lines anywhere else. */
export function watchRun({ context, log, app, resources, live }: WatchOptions): {
  watcher: RunWatcher;
  finish(): void;
} {
  const { clock } = context;
  const lines = live ? createLiveLines({ stream: context.stderr, clock }) : null;
  const progress = new Map(resources.map((resource) => [resource, waitingResource(resource)]));
  const loggedAt = new Map<string, number>();

  const snapshot = (): ProgressSnapshot => ({
    at: clock.monotonic(),
    resources: [...progress.values()],
    governor: governorProgress(app, clock.now()),
  });
  const change = (resource: string, next: (was: ResourceProgress, at: number) => ResourceProgress): void => {
    const was = progress.get(resource) ?? waitingResource(resource);
    progress.set(resource, next(was, clock.monotonic()));
    lines?.update(snapshot());
  };
  // Redrawn while nothing comes in, too: a pause that the service asked for must be seen to count down.
  const ticking = setInterval(() => lines?.update(snapshot()), 250);
  ticking.unref();

  const watcher: RunWatcher = {
    started: (resource, plan) => {
      const { walk_records: records, walk_pages: pages } = plan.checkpoint;
      log.info({ resource, mode: plan.mode, resumed: plan.resumed, pages_before: pages }, 'walk started');
      change(resource, (was, at) => startResource(was, at, { records, pages, requests: 0, total: null }));
    },
    page: (resource, page, figures) => {
      const before = page.number - figures.pages;
      const was = progress.get(resource);
      const records = (was?.records ?? 0) + page.records.length;
      const news = { records, pages: before + figures.pages, requests: figures.requests, total: page.total };
      change(resource, (known, at) => advanceResource(known, at, news));
      const at = clock.monotonic();
      if (at - (loggedAt.get(resource) ?? at - LOG_EVERY_MS) < LOG_EVERY_MS) return;
      loggedAt.set(resource, at);
      log.info({ resource, ...figures, total: page.total }, 'walk under way');
    },
    ended: (report, notes, error) => {
      change(report.resource, (was, at) => endResource(was, at, report.status));
      const level = report.status === 'ok' ? 'info' : report.status === 'failed' ? 'error' : 'warn';
      // Without a code of ours it is a bug: then the stack is what helps. `err` is the key that has one written out.
      const isBug = report.error?.code === 'bug';
      log[level]({ ...report, ...(isBug ? { err: error } : {}) }, `walk ${report.status}`);
      for (const [note, text] of NOTES) {
        if (notes[note] > 0) log.warn({ resource: report.resource, [note]: notes[note] }, text);
      }
    },
  };
  return {
    watcher,
    finish: () => {
      clearInterval(ticking);
      lines?.update(snapshot());
      lines?.finish();
    },
  };
}

function governorProgress(app: App, now: number): ProgressSnapshot['governor'] {
  const { requests, limited, allowedPerSecond, shareUsed, pausedUntil } = app.governor.figures();
  const pausedForMs = pausedUntil === null ? 0 : Math.max(0, pausedUntil - now);
  return { requests, limited, allowedPerSecond, shareUsed, pausedForMs };
}
