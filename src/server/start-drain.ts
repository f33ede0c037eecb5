import type { Logger } from 'pino';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { SourceSettings } from '../config/settings.ts';
import { pausedError } from '../database/state/server-state.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { App } from './app.ts';
import type { KnownPauses } from './controls/known-pauses.ts';
import { type Drain, type DrainEvent, type DrainOptions, InboxDrain } from './inbox/drain.ts';

export interface DrainParts {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  secrets: readonly string[];
  watcher: { settled(event: DrainEvent): void };
}

/** How records are refetched and resources walked, which depends on who does the work. */
interface DrainWay extends Pick<DrainOptions, 'walk' | 'refetch' | 'persist' | 'concerns' | 'pollMs'> {
  pauses: KnownPauses;
}

/** Starts to work on the deliveries of a source; null if the source receives no webhooks. */
export function startDrain(parts: DrainParts, inbox: DrainOptions['inbox'] | null, way: DrainWay): Drain | null {
  const { source, clock, log, secrets, watcher } = parts;
  const { profile, webhook } = source;
  if (inbox === null || webhook === null) return null;
  const drain = new InboxDrain({
    webhooks: profile.webhooks,
    resources: syncedResources(source),
    ...way,
    ...unlessPaused(source.name, way),
    inbox,
    secrets,
    clock,
    attempts: webhook.attempts,
    keepMs: webhook.keep,
    concurrency: profile.http.concurrency,
    watcher: {
      settled: (event) => watcher.settled(event),
      failed: (error, at) => {
        // In a cluster another process may own the resource at any time.
        const isExpected = hasCode(error, 'paused') || (way.concerns !== undefined && hasCode(error, 'lease_held'));
        log[isExpected ? 'debug' : 'warn']({ ...at, error }, `a delivery was put off: ${messageOf(error)}`);
      },
    },
  });
  const ending = new AbortController();
  void way.pauses.watch(ending.signal, () => drain.retry());
  return {
    wake: () => drain.wake(),
    retry: () => drain.retry(),
    figures: () => drain.figures(),
    stop: () => {
      ending.abort();
      return drain.stop();
    },
  };
}

/** Deliveries for a paused resource stay in the inbox as they came. */
function unlessPaused(source: string, way: DrainWay): Pick<DrainOptions, 'walk' | 'refetch' | 'concerns'> {
  const { pauses } = way;
  const refusePaused = async (resource: string): Promise<void> => {
    if (await pauses.isPaused(resource)) throw pausedError(source, resource);
  };
  return {
    concerns: (resources) => {
      const areAllPaused = resources.length > 0 && resources.every((resource) => pauses.wasPaused(resource));
      return !areAllPaused && way.concerns?.(resources) !== false;
    },
    refetch: async (resource, ...asked) => {
      await refusePaused(resource);
      return way.refetch(resource, ...asked);
    },
    walk: async (resource, ...asked) => {
      await refusePaused(resource);
      return way.walk(resource, ...asked);
    },
  };
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof SyncError && error.code === code;
}

/** Refetches records through the app until the signal is aborted. */
export function refetchBy(app: App, signal: AbortSignal): DrainOptions['refetch'] {
  return (resource, key, expected) => app.refetch({ resource, key, expected, signal });
}

/** The profile's resources that the settings choose, by name. */
export function syncedResources({ profile, resources }: SourceSettings): Record<string, ResourceProfile> {
  return Object.fromEntries(Object.entries(profile.resources).filter(([name]) => resources.includes(name)));
}
