import type { Logger } from 'pino';
import type { App, AppOptions } from '../../app.ts';
import { retryText } from '../../http/client.ts';
import { visibleText } from '../../model/visible-text.ts';
import { createTerminalProgress } from '../../observe/terminal-progress.ts';
import {
  advanceResource,
  endResource,
  startResource,
  waitingResource,
  type ProgressSnapshot,
  type ResourceProgress,
} from '../../observe/progress.ts';
import type { RunWatcher } from '../../sync/report.ts';
import type { CliContext } from './context.ts';
import { logWalks } from '../../serve/source-watcher.ts';
import { reportOnce } from '../../observe/report-once.ts';

interface WatchOptions {
  context: CliContext;
  log: Logger;
  app: App;
  resources: readonly string[];
  /** False if the log was asked for, which takes the place of the live lines. */
  live: boolean;
}

/** Shows a run while it goes on: live lines on a terminal, log lines anywhere else. */
export function watchRun({ context, log, app, resources, live }: WatchOptions): {
  watcher: RunWatcher;
  /** Shows why a resource waits for its next attempt. */
  retried: NonNullable<AppOptions['retried']>;
  finish: () => void;
} {
  const { clock } = context;
  const lines = live ? createTerminalProgress({ stream: context.stderr, clock }) : null;
  const progress = new Map(resources.map((resource) => [resource, waitingResource(resource)]));
  const logged = logWalks(log, clock, 'info', reportOnce());

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
      logged.started(resource, plan);
      change(resource, (was, at) => startResource(was, at, { records, pages, requests: 0, total: null }));
    },
    page: (resource, page, figures) => {
      const records = (progress.get(resource)?.records ?? 0) + page.records.length;
      const news = { records, pages: page.number, requests: figures.requests, total: page.total };
      change(resource, (known, at) => advanceResource(known, at, news));
      logged.page(resource, page, figures);
    },
    ended: (report, notes, error) => {
      change(report.resource, (was, at) => endResource(was, at, report.status));
      logged.ended(report, notes, error);
    },
  };
  return {
    watcher,
    retried: (event, resource) => {
      if (resource !== undefined) change(resource, (was) => ({ ...was, note: visibleText(retryText(event)) }));
    },
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
