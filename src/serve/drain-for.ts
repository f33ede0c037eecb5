import type { Logger } from 'pino';
import type { App } from '../app.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError, messageOf } from '../model/errors.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { createDrain } from '../trigger/drain/drain.ts';
import type { Drain, DrainEvent, DrainOptions } from '../trigger/drain/options.ts';

/** What a source's drain needs, whoever starts it. */
export interface DrainParts {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  secrets: readonly string[];
  watcher: { settled(event: DrainEvent): void };
}

/** What differs with the warehouse: how records are read again and resources walked, and for whom. */
export type DrainWay = Pick<DrainOptions, 'walk' | 'refetch' | 'persist' | 'concerns' | 'pollMs'>;

/** Starts a source's drain; null where the source receives no webhooks. */
export function drainFor(parts: DrainParts, inbox: DrainOptions['inbox'] | null, way: DrainWay): Drain | null {
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
        // Where many do the work, that is how it goes.
        const level = way.concerns !== undefined && isAnothers(error) ? 'debug' : 'warn';
        log[level]({ ...at, err: error }, `a delivery was put off: ${messageOf(error)}`);
      },
    },
  });
}

function isAnothers(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'lease_held';
}

/** Reads records again through the app, until the signal. */
export function refetchBy(app: App, signal: AbortSignal): DrainOptions['refetch'] {
  return (resource, key, expected) => app.refetch({ resource, key, expected, signal });
}

export function syncedResources({ profile, resources }: SourceSettings): Record<string, ResourceProfile> {
  return Object.fromEntries(Object.entries(profile.resources).filter(([name]) => resources.includes(name)));
}
