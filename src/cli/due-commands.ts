import type { App } from '../app.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import type { SyncCommand } from '../sync/plan.ts';
import { dueOf } from '../trigger/schedule/due.ts';
import { timesOf } from '../trigger/schedule/times.ts';

/** What `sync --due` has to do, and when there will be more. */
export interface DueNow {
  /** By resource, in the order in which they were named. */
  commands: Record<string, SyncCommand>;
  /** Epoch milliseconds; null where nothing is scheduled. */
  nextAt: number | null;
}

/** Asks the stored state of each resource what is due by the schedule. */
export async function dueNow(app: App, resources: readonly string[], now: number): Promise<DueNow> {
  const { name: source, profile, schedule } = app.source;
  const commands: DueNow['commands'] = {};
  const moments: number[] = [];
  for (const resource of resources) {
    const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
    // Whoever calls has chosen the moment: a call at the very time of an occurrence must not find it due later.
    const times = { ...timesOf({ source, resource, hasFilter }, schedule), jitter: 0 };
    const stored = await readCheckpoint(app.warehouse.own, resource);
    // This process lives for one look: how long ago a success was, only the clock can tell.
    const elapsed = { success: null, full: null };
    const { command, nextAt } = dueOf({ times, stored, elapsed, now, watchedSince: now });
    // Also where the service asked to be left alone: the run then says so, and sends nothing.
    if (command !== null) commands[resource] = command;
    if (nextAt !== null) moments.push(nextAt);
  }
  return { commands, nextAt: moments.length === 0 ? null : Math.min(...moments) };
}
