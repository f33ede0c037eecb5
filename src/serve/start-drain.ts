import type { Logger } from 'pino';
import type { App } from '../app.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError, messageOf } from '../model/errors.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { createDrain } from '../trigger/drain/drain.ts';
import type { Drain, DrainEvent, DrainOptions } from '../trigger/drain/options.ts';

export interface DrainParts {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  secrets: readonly string[];
  watcher: { settled(event: DrainEvent): void };
}

/** How records are refetched and resources walked, which depends on who does the work. */
type DrainWay = Pick<DrainOptions, 'walk' | 'refetch' | 'persist' | 'concerns' | 'pollMs'>;

/** Starts to work on the deliveries of a source; null if the source receives no webhooks. */
export function startDrain(parts: DrainParts, inbox: DrainOptions['inbox'] | null, way: DrainWay): Drain | null {
  const { source, clock, log, secrets, watcher } = parts;
  const { profile, webhook } = source;
  if (inbox === null || webhook === null) return null;
  return createDrain({
    webhooks: profile.webhooks,
    resources: syncedResources(source),
    ...way,
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
        const level = way.concerns !== undefined && isLeaseHeld(error) ? 'debug' : 'warn';
        log[level]({ ...at, error }, `a delivery was put off: ${messageOf(error)}`);
      },
    },
  });
}

function isLeaseHeld(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'lease_held';
}

/** Refetches records through the app until the signal is aborted. */
export function refetchBy(app: App, signal: AbortSignal): DrainOptions['refetch'] {
  return (resource, key, expected) => app.refetch({ resource, key, expected, signal });
}

/** The profile's resources that the settings choose, by name. */
export function syncedResources({ profile, resources }: SourceSettings): Record<string, ResourceProfile> {
  return Object.fromEntries(Object.entries(profile.resources).filter(([name]) => resources.includes(name)));
}
