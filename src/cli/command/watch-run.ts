// Shows the progress of a run, as live lines on a terminal or as log lines, and its result.
import type { Logger } from 'pino';
import { retryText } from '../../http/client.ts';
import type { RateLimiter } from '../../http/rate-limit/rate-limiter.ts';
import { visibleText } from '../../model/visible-text.ts';
import { formatCount, formatNumber, formatDuration } from '../../observe/format-values.ts';
import {
  advanceResource,
  endResource,
  type ResourceProgress,
  startResource,
  waitingResource,
} from '../../observe/progress.ts';
import { createTerminalProgress } from '../../observe/terminal-progress.ts';
import type { AppOptions } from '../../server/app.ts';
import { logRuns } from '../../server/log-runs.ts';
import type { ResourceReport, RunReport, RunWatcher } from '../../sync/report.ts';
import type { CliContext } from './context.ts';

interface RunDisplay {
  /** Begins to show these resources as waiting. */
  begin: (resources: readonly string[], rateLimiter: RateLimiter) => void;
  watcher: RunWatcher;
  /** Shows why a resource waits for its next attempt. */
  retried: NonNullable<AppOptions['retried']>;
  finish: () => void;
}

const REDRAW_MS = 250;

/** Creates the display of one run. `isLive` is false if --log-level is given: then the log replaces the live lines. */
export function watchRun({ clock, stderr }: CliContext, log: Logger, isLive: boolean): RunDisplay {
  const lines = isLive ? createTerminalProgress({ stream: stderr, clock }) : null;
  const logged = logRuns(log, clock, 'info');
  const progress = new Map<string, ResourceProgress>();
  let limiter: RateLimiter | null = null;
  let redrawing: NodeJS.Timeout | undefined;
  const draw = (): void => {
    if (limiter === null) return;
    const { pausedUntil, ...rateLimiter } = limiter.metrics();
    const pausedForMs = pausedUntil === null ? 0 : Math.max(0, pausedUntil - clock.now());
    const resources = [...progress.values()];
    lines?.update({ at: clock.monotonic(), resources, rateLimiter: { ...rateLimiter, pausedForMs } });
  };
  const change = (resource: string, next: (was: ResourceProgress, at: number) => ResourceProgress): void => {
    progress.set(resource, next(progress.get(resource) ?? waitingResource(resource), clock.monotonic()));
    draw();
  };
  return {
    begin: (resources, rateLimiter) => {
      for (const resource of resources) progress.set(resource, waitingResource(resource));
      limiter = rateLimiter;
      // Redrawn between pages too, so that a pause counts down.
      redrawing = setInterval(draw, REDRAW_MS).unref();
    },
    watcher: {
      started: (resource, plan) => {
        const { walk_records: records, walk_pages: pages } = plan.checkpoint;
        logged.started(resource, plan);
        change(resource, (was, at) => startResource(was, at, { records, pages, requests: 0, total: null }));
      },
      page: (resource, page, counters) => {
        const { number: pages, total } = page;
        const { requests } = counters;
        change(resource, (was, at) =>
          advanceResource(was, at, { records: was.records + page.records.length, pages, requests, total }),
        );
        logged.page(resource, page, counters);
      },
      ended: (report, notes, error) => {
        change(report.resource, (was, at) => endResource(was, at, report.status));
        logged.ended(report, notes, error);
      },
    },
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

/** Formats the report of a run for a terminal: a line per resource, and advice for those that did not end well. */
export function summaryText(report: RunReport): string {
  const width = Math.max(...report.resources.map(({ resource }) => resource.length));
  const lines = report.resources.flatMap((resource) => [
    `${resource.resource.padEnd(width)}  ${formatCounts(resource)}`,
    ...formatAdvice(resource).map((line) => `${' '.repeat(width)}  ${line}`),
  ]);
  return lines.map(visibleText).join('\n');
}

function formatCounts(report: ResourceReport): string {
  const { status, mode, inserted, updated, unchanged, deleted, held, rejected, requests, limited, seconds } = report;
  const { forgotten = 0 } = report;
  const parts = [
    `${formatNumber(inserted)} new`,
    `${formatNumber(updated)} changed`,
    `${formatNumber(unchanged)} unchanged`,
    ...(deleted > 0 ? [`${formatNumber(deleted)} deleted`] : []),
    ...(held > 0 ? [`${formatNumber(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${formatNumber(rejected)} rejected`] : []),
    ...(forgotten > 0 ? [`${formatNumber(forgotten)} dropped as erased`] : []),
    formatCount(requests, 'request'),
    ...(limited > 0 ? [`${formatNumber(limited)} of them limited`] : []),
    formatDuration(seconds),
  ];
  return `${status} (${mode}): ${parts.join(', ')}`;
}

function formatAdvice({ error, rejected, warnings = [] }: ResourceReport): string[] {
  const hint = error?.code === 'bug' ? 'report it; --log-level error shows where it happened' : error?.hint;
  return [
    ...(error === undefined ? [] : [`${error.message} [${error.code}]`]),
    ...(hint === undefined ? [] : [`→ ${hint}`]),
    ...warnings.flatMap((warning) => [warning.message, `→ ${warning.hint}`]),
    ...(rejected > 0 ? ['→ see _sync_rejects for the rejected records, each with its reason and its body'] : []),
  ];
}
