import type { Logger } from 'pino';
import type { WalkMode } from '../../model/vocabulary.ts';
import { createTerminalProgress } from '../../observe/terminal-progress.ts';
import {
  advanceResource,
  endResource,
  startResource,
  waitingResource,
  type GovernorProgress,
  type ResourceProgress,
} from '../../observe/progress.ts';
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

/** Progress of a sync that another process does. */
interface SyncNews {
  resource: string;
  mode: WalkMode;
  records: number;
  pages: number;
  total: number | null;
}

/** Shows syncs that another process does. */
export interface FollowedRun {
  news(news: SyncNews): void;
  ended(report: ResourceReport): void;
  finish(): void;
}

/** Nothing is known here of the requests of the other process. */
const QUIET: GovernorProgress = {
  requests: 0,
  limited: 0,
  allowedPerSecond: null,
  shareUsed: null,
  pausedForMs: 0,
};
/** A sync under way is logged at most this often. */
const LOG_EVERY_MS = 10_000;
const REDRAW_MS = 250;

/** Live lines on a terminal, log lines anywhere else, as for syncs of this process. */
export function followRun({ context, log, resources, live }: FollowOptions): FollowedRun {
  const { clock, stderr } = context;
  const lines = live ? createTerminalProgress({ stream: stderr, clock }) : null;
  const progress = new Map(resources.map((resource) => [resource, waitingResource(resource)]));
  const modes = new Map<string, WalkMode>();
  const loggedAt = new Map<string, number>();
  const logged = logWalks(log, clock, 'info');
  const draw = (): void => lines?.update({ at: clock.monotonic(), resources: [...progress.values()], governor: QUIET });
  const change = (resource: string, next: (was: ResourceProgress, at: number) => ResourceProgress): void => {
    progress.set(resource, next(progress.get(resource) ?? waitingResource(resource), clock.monotonic()));
    draw();
  };
  const ticking = setInterval(draw, REDRAW_MS);
  ticking.unref();
  return {
    news: ({ resource, mode, ...counts }) => {
      const { pages, records, total } = counts;
      const isOther = modes.get(resource) !== mode || records < (progress.get(resource)?.records ?? 0);
      const now = { ...counts, requests: 0 };
      change(resource, (was, at) => (isOther ? startResource : advanceResource)(was, at, now));
      const at = clock.monotonic();
      if (isOther) log.info({ resource, mode, pages_before: pages }, 'walk started');
      else if (at - (loggedAt.get(resource) ?? at) >= LOG_EVERY_MS)
        log.info({ resource, mode, pages, records, total }, 'walk under way');
      else return;
      modes.set(resource, mode);
      loggedAt.set(resource, at);
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
