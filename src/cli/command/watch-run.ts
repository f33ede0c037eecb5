// Shows the progress and the result of a run on a terminal or in the log, and finds a running `serve`.
import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import type { Logger } from 'pino';
import { retryText } from '../../http/client.ts';
import { visibleText } from '../../model/visible-text.ts';
import { countText, durationText } from '../../observe/figures.ts';
import {
  advanceResource,
  endResource,
  type RateLimiterProgress,
  type ResourceProgress,
  startResource,
  waitingResource,
} from '../../observe/progress.ts';
import { createTerminalProgress } from '../../observe/terminal-progress.ts';
import type { App, AppOptions } from '../../server/app.ts';
import type { ServeConnection } from '../../server/controls/serve-connection.ts';
import { logRuns } from '../../server/log-runs.ts';
import type { ResourceReport, RunReport, RunWatcher } from '../../sync/report.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './sources.ts';

interface WatchOptions {
  context: CliContext;
  log: Logger;
  app: App;
  resources: readonly string[];
  /** False if --log-level is given: then the log replaces the live lines. */
  live: boolean;
}

const REDRAW_MS = 250;

/** Shows the progress of a run: live lines on a terminal, log lines anywhere else. */
export function watchRun({ context, log, app, resources, live }: WatchOptions): {
  watcher: RunWatcher;
  /** Shows why a resource waits for its next attempt. */
  retried: NonNullable<AppOptions['retried']>;
  finish: () => void;
} {
  const { clock, stderr } = context;
  const lines = live ? createTerminalProgress({ stream: stderr, clock }) : null;
  const progress = new Map(resources.map((resource) => [resource, waitingResource(resource)]));
  const draw = (): void => {
    const rateLimiter = rateLimiterProgress(app, clock.now());
    lines?.update({ at: clock.monotonic(), resources: [...progress.values()], rateLimiter });
  };
  const change = (resource: string, next: (was: ResourceProgress, at: number) => ResourceProgress): void => {
    progress.set(resource, next(progress.get(resource) ?? waitingResource(resource), clock.monotonic()));
    draw();
  };
  // Redrawn between pages too, so that a pause counts down.
  const redrawing = setInterval(draw, REDRAW_MS);
  redrawing.unref();
  const logged = logRuns(log, clock, 'info');

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
      clearInterval(redrawing);
      draw();
      lines?.finish();
    },
  };
}

function rateLimiterProgress(app: App, now: number): RateLimiterProgress {
  const { requests, limited, allowedPerSecond, pausedUntil } = app.rateLimiter.figures();
  const pausedForMs = pausedUntil === null ? 0 : Math.max(0, pausedUntil - now);
  return { requests, limited, allowedPerSecond, pausedForMs };
}

/** Formats the report of a run for a terminal: a line per resource, and advice for those that did not end well. */
export function summaryText(report: RunReport): string {
  const width = Math.max(...report.resources.map(({ resource }) => resource.length));
  const lines = report.resources.flatMap((resource) => [
    `${resource.resource.padEnd(width)}  ${formatCounts(resource)}`,
    ...formatAdvice(resource).map((line) => `${' '.repeat(width)}  ${line}`),
  ]);
  return lines.map((line) => `${visibleText(line)}\n`).join('');
}

function formatCounts(report: ResourceReport): string {
  const { status, mode, inserted, updated, unchanged, deleted, held, rejected, requests, limited, seconds } = report;
  const { forgotten = 0 } = report;
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    ...(deleted > 0 ? [`${countText(deleted)} deleted`] : []),
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} rejected`] : []),
    ...(forgotten > 0 ? [`${countText(forgotten)} dropped as erased`] : []),
    `${countText(requests)} ${requests === 1 ? 'request' : 'requests'}`,
    ...(limited > 0 ? [`${countText(limited)} of them limited`] : []),
    durationText(seconds),
  ];
  return `${status} (${mode}): ${parts.join(', ')}`;
}

function formatAdvice({ error, rejected, warnings }: ResourceReport): string[] {
  const hint = error?.code === 'bug' ? 'report it; --log-level error shows where it happened' : error?.hint;
  return [
    ...(error === undefined ? [] : [`${error.message} [${error.code}]`]),
    ...(hint === undefined ? [] : [`→ ${hint}`]),
    ...(warnings ?? []).flatMap((warning) => [warning.message, `→ ${warning.hint}`]),
    ...(rejected > 0 ? ['→ see _sync_rejects for the rejected records, each with its reason and its body'] : []),
  ];
}

/** The `serve` on this machine that keeps a source fresh; null if none runs. Throws `SyncError('control_denied')`. */
export async function findServe({ control }: ChosenSource): Promise<ServeConnection | null> {
  if (control === null || !existsSync(control)) return null;
  // Loaded only if a `serve` may run.
  const { findSocket } = await import('../../server/controls/serve-connection.ts');
  return findSocket(control, caller());
}

/** The user and the process of this command, for the audit log of the `serve` that it controls. */
export function caller(): string {
  try {
    return `${userInfo().username}, pid ${process.pid}`;
  } catch {
    // The user of a container may have no name.
    return `pid ${process.pid}`;
  }
}
