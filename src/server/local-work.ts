// Does the work on a SQLite source in this process; `cluster/cluster.ts` does it for Postgres.
import type PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { type App, openApp } from './app.ts';
import { KnownPauses } from './controls/known-pauses.ts';
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

/** Records that are fetched one after the other need not acquire their resource each time. */
export const OWNED_LINGER_MS = 1_000;

/**
 * All work on a source is done by this process, which keeps it open. It owns a resource only during a run, so
 * that a command may sync it in between.
 */
export function localWork(options: LocalWorkOptions): SourceWork {
  const { source, clock, log, secrets, activity, watcher, inbox, opening } = options;
  let open: { app: App; pauses: KnownPauses } | null = null;
  let drain: Drain | null = null;
  return {
    maintenanceIntervalMs: 10_000,
    rateLimiter: () => open?.app.rateLimiter.figures() ?? null,
    wake: () => drain?.wake(),
    retry: async (now) => {
      await open?.app.retry(now).catch(() => undefined);
      drain?.retry();
    },
    pausesChanged: async () => {
      await open?.pauses.refresh();
      drain?.retry();
    },
    open: async (opened, stopping) => {
      const app = await opening.add(() => {
        stopping.throwIfAborted();
        const { attempted } = activity;
        return openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
      });
      opened.defer(() => app.close());
      const reading = new AbortController();
      opened.defer(() => reading.abort(endingError()));
      opened.defer(() => {
        open = null;
      });
      const pauses = new KnownPauses(app.warehouse, clock);
      open = { app, pauses };
      return {
        warehouse: app.warehouse,
        use: (work) => work(app),
        scan: (resource, command, signal) => pauses.syncUnlessPaused(app, resource, command, watcher, signal),
        startDrain: (scan) => {
          const parts = { ...options, app, pauses, scan, signal: reading.signal };
          drain = inbox === null ? null : startDrain({ ...parts, inbox });
          return drain;
        },
        maintain: () => app.warehouse.upkeep(),
      };
    },
  };
}
