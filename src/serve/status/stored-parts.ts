import type { Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { SourceActivity } from '../../observe/activity.ts';
import type { Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { dueOf, timesOf, type StoredSuccess } from '../../trigger/schedule/due.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import type { ScheduleStatus } from './snapshot.ts';
import type { StatusParts } from './source-status.ts';

interface StoredSource extends Pick<StatusParts, 'read' | 'inbox'> {
  clock: Clock;
  metrics: Metrics;
  secrets: readonly string[];
  /** By resource; those that were never walked are not there. */
  successes: ReadonlyMap<string, StoredSuccess>;
}

/** The status of a source that this process does not keep: what its warehouse and inbox remember, and nothing more. */
export function storedParts(
  source: SourceSettings,
  { clock, metrics, secrets, successes, read, inbox }: StoredSource,
): StatusParts {
  return {
    source,
    activity: new SourceActivity(source.name, clock, metrics),
    read,
    governor: () => null,
    schedule: (resource) => scheduleOf(source, resource, successes.get(resource) ?? null, clock.now()),
    inbox,
    deliveries: null,
    scrub: (text) => scrubOwn(text, secrets),
  };
}

/** When each resource was last walked, by its name. Throws what the warehouse throws. */
export async function readSuccesses(
  { resources }: Pick<SourceSettings, 'resources'>,
  own: Kysely<OwnTables>,
): Promise<Map<string, StoredSuccess>> {
  const successes = new Map<string, StoredSuccess>();
  for (const resource of resources) {
    const checkpoint = await readCheckpoint(own, resource);
    if (checkpoint !== null) successes.set(resource, checkpoint);
  }
  return successes;
}

function scheduleOf(
  { name: source, profile, schedule }: SourceSettings,
  resource: string,
  stored: StoredSuccess | null,
  now: number,
): ScheduleStatus {
  const { timezone, resources, ...usual } = schedule;
  const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const times = timesOf({ source, resource, hasFilter }, schedule);
  const elapsed = { success: null, full: null };
  const { nextAt, overdueAt } = dueOf({ times, stored, elapsed, now, watchedSince: now });
  return { incremental, full, timezone, next_at: nextAt, overdue_at: overdueAt };
}
