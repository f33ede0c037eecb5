// The work on a SQLite source (scans, deliveries, maintenance), which one process does alone. On Postgres several processes
// share it by a queue (`cluster/cluster.ts`).
import type PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { type App, openApp } from './app.ts';
import { PausedResources } from './controls/paused-resources.ts';
import type { Drain } from './inbox/drain.ts';
import { endingError, type ReceivedInbox, type SourceWork, type WatchedSource } from './source-supervisor.ts';
import { startDrain } from './start-drain.ts';

interface LocalWorkOptions extends WatchedSource {
  clock: Clock;
  secrets: string[];
  inbox: ReceivedInbox | null;
  /** Limits how many sources are opened in parallel. */
  opening: PQueue;
}

/** Records that are fetched within this time of each other need not acquire their resource again. */
export const OWNED_LINGER_MS = 1_000;

/**
 * Creates the work on a source that this process keeps open. It owns a resource only during a run, so that a command may
 * sync the resource in between.
 */
export function createLocalWork(options: LocalWorkOptions): SourceWork {
  const { source, clock, log, secrets, activity, watcher, inbox, opening } = options;
  let app: App | null = null;
  let drain: Drain | null = null;
  return {
    maintenanceIntervalMs: 10_000,
    rateLimiter: () => app?.rateLimiter.metrics() ?? null,
    wake: () => drain?.wake(),
    retry: async (now) => {
      await app?.retry(now).catch(() => undefined);
      drain?.retry();
    },
    open: async (opened, stopping) => {
      const open = await opening.add(() => {
        stopping.throwIfAborted();
        const { attempted } = activity;
        return openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
      });
      opened.defer(() => open.close());
      const closing = new AbortController();
      opened.defer(() => closing.abort(endingError()));
      opened.defer(() => {
        app = null;
      });
      const pauses = new PausedResources(open.warehouse, clock);
      app = open;
      return {
        warehouse: open.warehouse,
        use: (work) => work(open),
        scan: (resource, command, signal) => pauses.syncUnlessPaused(open, resource, command, watcher, signal),
        startDrain: (scan) => {
          const { signal } = closing;
          drain = inbox === null ? null : startDrain({ ...options, inbox, app: open, pauses, scan, signal });
          return drain;
        },
        maintain: () => open.warehouse.upkeep(),
      };
    },
  };
}
