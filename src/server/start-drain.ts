// Starts the worker that processes the webhook deliveries of one source (`inbox/drain.ts`), and connects it with the
// source: it fetches the records of resources that are not paused, and counts and logs the results.
import { pausedError } from '../database/state/server-state.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { SyncCommand } from '../sync/plan.ts';
import type { RunReport } from '../sync/report.ts';
import type { App } from './app.ts';
import type { PausedResources } from './controls/paused-resources.ts';
import { Drain, type DrainOptions } from './inbox/drain.ts';
import { syncedResources, type WatchedSource } from './source-supervisor.ts';

export interface DrainParts extends WatchedSource {
  clock: Clock;
  secrets: readonly string[];
  app: App;
  inbox: DrainOptions['inbox'];
  pauses: PausedResources;
  /** Starts a scan, and returns its report. */
  scan: (resource: string, command: SyncCommand) => Promise<RunReport>;
  /** Ends the fetches in progress. */
  signal: AbortSignal;
  /** Only in a cluster: returns true if this process handles deliveries for these resources. */
  isResponsible?: (resources: readonly string[]) => boolean;
  /** Throws if another process is about to sync the resource. */
  checkOwner?: (resource: string) => void;
}

/** Starts to process the deliveries of a source that receives webhooks. */
export function startDrain(parts: DrainParts): Drain {
  const { source, log, activity, app, pauses, isResponsible, checkOwner } = parts;
  const { profile, webhook } = source;
  if (webhook === null) throw new Error(`the source ${source.name} receives no webhooks`);
  const refusePaused = async (resource: string): Promise<void> => {
    if (await pauses.isPaused(resource)) throw pausedError(source.name, resource);
  };
  return new Drain({
    ...parts,
    webhooks: profile.webhooks,
    resources: syncedResources(source),
    persist: () => app.warehouse.persist(),
    refetch: async (resource, key, expected) => {
      await refusePaused(resource);
      checkOwner?.(resource);
      return app.refetch({ resource, key, expected, signal: parts.signal });
    },
    scan: async (resource, command) => {
      await refusePaused(resource);
      await scanOrThrow(parts, resource, command);
    },
    attempts: webhook.attempts,
    keepMs: webhook.keep,
    concurrency: profile.http.concurrency,
    watcher: {
      ended: (event) => activity.delivered(event),
      failed: (error, at) => {
        const code = error instanceof SyncError ? error.code : 'bug';
        // In a cluster another process may own the resource at any time.
        const isExpected = code === 'paused' || (isResponsible !== undefined && code === 'lease_held');
        log[isExpected ? 'debug' : 'warn']({ ...at, error }, `a delivery was deferred: ${messageOf(error)}`);
      },
    },
  });
}

/** Scans a resource for its deliveries. Throws if the scan did not reach its end, so that they are tried again. */
async function scanOrThrow({ scan }: DrainParts, resource: string, command: SyncCommand): Promise<void> {
  const { status, resources } = await scan(resource, command);
  if (status === 'ok' || status === 'partial') return;
  const unknown = { code: status, message: `the sync of ${resource} ended as ${status}` };
  const { code, message } = resources[0]?.error ?? unknown;
  throw new SyncError(code, message, { recovery: 'retry' });
}
