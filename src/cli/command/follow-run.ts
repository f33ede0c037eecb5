import type { Logger } from 'pino';
import { createTerminalProgress } from '../../observe/terminal-progress.ts';
import {
  advanceResource,
  endResource,
  startResource,
  waitingResource,
  type GovernorProgress,
  type ResourceProgress,
} from '../../observe/progress.ts';
import { reportOnce } from '../../observe/report-once.ts';
import type { WalkNews } from '../../serve/controls/controlled-source.ts';
import { logWalks } from '../../serve/source-watcher.ts';
import { NO_NOTES, type ResourceReport } from '../../sync/report.ts';
import type { CliContext } from './context.ts';

interface FollowOptions {
  context: CliContext;
  log: Logger;
  resources: readonly string[];
  /** False if the log was asked for, which takes the place of the live lines. */
  live: boolean;
}

/** Shows walks that another process does. */
export interface FollowedRun {
  news(news: WalkNews): void;
  ended(report: ResourceReport): void;
  finish(): void;
}

const QUIET: GovernorProgress = {
  requests: 0,
  limited: 0,
  allowedPerSecond: null,
  shareUsed: null,
  pausedForMs: 0,
};
/** A walk under way is logged at most this often. */
const LOG_EVERY_MS = 10_000;
const REDRAW_MS = 250;

/** Live lines on a terminal, log lines anywhere else, as for walks of this process. */
export function followRun({ context, log, resources, live }: FollowOptions): FollowedRun {
  const { clock, stderr } = context;
  const lines = live ? createTerminalProgress({ stream: stderr, clock }) : null;
  const progress = new Map(resources.map((resource) => [resource, waitingResource(resource)]));
  const modes = new Map<string, WalkNews['mode']>();
  const loggedAt = new Map<string, number>();
  const logged = logWalks(log, clock, 'info', reportOnce());
  let governor = QUIET;
  const draw = (): void => lines?.update({ at: clock.monotonic(), resources: [...progress.values()], governor });
  const change = (resource: string, next: (was: ResourceProgress, at: number) => ResourceProgress): void => {
    progress.set(resource, next(progress.get(resource) ?? waitingResource(resource), clock.monotonic()));
    draw();
  };
  const ticking = setInterval(draw, REDRAW_MS);
  ticking.unref();
  const begin = ({ resource, mode, pages, ...news }: WalkNews): void => {
    modes.set(resource, mode);
    loggedAt.set(resource, clock.monotonic());
    log.info({ resource, mode, pages_before: pages }, 'walk started');
    change(resource, (was, at) => startResource(was, at, { ...news, pages }));
  };
  return {
    news: (news) => {
      const { resource, mode, pages, records, requests, total } = news;
      governor = news.governor ?? governor;
      const isOther = modes.get(resource) !== mode || records < (progress.get(resource)?.records ?? 0);
      if (isOther) return begin(news);
      change(resource, (was, at) => advanceResource(was, at, { records, pages, requests, total }));
      const at = clock.monotonic();
      if (at - (loggedAt.get(resource) ?? at) < LOG_EVERY_MS) return;
      loggedAt.set(resource, at);
      log.info({ resource, mode, pages, records, requests, total }, 'walk under way');
    },
    ended: (report) => {
      change(report.resource, (was, at) => endResource(was, at, report.status));
      logged.ended(report, NO_NOTES, null);
    },
    finish: () => {
      clearInterval(ticking);
      draw();
      lines?.finish();
    },
  };
}
