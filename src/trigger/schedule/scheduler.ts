import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { ScheduleSettings } from '../../settings/settings.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { ResourceSchedule, type ScheduleFigures, type ScheduleParts } from './resource.ts';
import { timesOf } from './due.ts';

export interface SchedulerOptions {
  /** Name of the source. */
  source: string;
  /** The resources to keep fresh, by name. */
  resources: Readonly<Record<string, Pick<ResourceProfile, 'incremental'>>>;
  schedule: ScheduleSettings;
  clock: Clock;
  checkpoints: ScheduleParts['checkpoints'];
  isPaused: ScheduleParts['isPaused'];
  run: ScheduleParts['run'];
  failed: ScheduleParts['failed'];
}

/** Keeps the resources of one source fresh, each for itself: one that hangs or fails never delays another. */
export interface Scheduler {
  /** Begins to look, at once and whenever something is due. */
  start(): void;
  /** Aborts what is running, with `SyncError('interrupted')`, and waits until it has ended. */
  stop(): Promise<void>;
  /**
   * Asks for a walk of the resource as soon as it may be, a whole one for `backfill`. Resolves once such a walk that
   * began after the request has come to its end, however many attempts that takes; rejects with `SyncError('interrupted')` when the scheduler stops,
   * and with `SyncError('unknown_resource')`.
   */
  requestWalk(this: void, resource: string, command: SyncCommand): Promise<void>;
  /** Walks now, as `ResourceSchedule.walkNow` does. Rejects with `SyncError('unknown_resource')` too. */
  walkNow(resource: string, command: SyncCommand): Promise<RunReport>;
  /** Forgets failures of these resources, and the wait after them. */
  retry(resources: readonly string[]): void;
  /** Reads again which resources are paused; walks of those end at the page in hand. */
  honourPauses(): Promise<void>;
  figures(): ScheduleFigures[];
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { source, schedule, resources, ...parts } = options;
  const stopping = new AbortController();
  const schedules = new Map(
    Object.entries(resources).map(([resource, { incremental }]) => {
      const times = timesOf({ source, resource, hasFilter: incremental !== null }, schedule);
      return [resource, new ResourceSchedule({ ...parts, resource, times })];
    }),
  );
  const scheduleOf = (resource: string): ResourceSchedule => {
    stopping.signal.throwIfAborted();
    const known = schedules.get(resource);
    if (known === undefined) throw unknownResource(resource);
    return known;
  };
  let loops: Promise<void>[] = [];
  return {
    start: () => {
      loops = [...schedules.values()].map((each) => each.work(stopping.signal));
    },
    stop: async () => {
      stopping.abort(new SyncError('interrupted', 'the schedule was stopped', { recovery: 'stop' }));
      await Promise.all(loops);
    },
    requestWalk: async (resource, command) => scheduleOf(resource).request(command),
    walkNow: async (resource, command) => scheduleOf(resource).walkNow(command),
    retry: (chosen) => chosen.forEach((resource) => schedules.get(resource)?.retry()),
    honourPauses: async () => void (await Promise.all(Array.from(schedules.values(), (each) => each.honourPause()))),
    figures: () => Array.from(schedules.values(), (each) => each.figures()),
  };
}

function unknownResource(resource: string): SyncError {
  return new SyncError('unknown_resource', `"${resource}" is not a resource that is synced`, {
    recovery: 'skip',
    hint: 'check resource_names and kinds of the profile, and resources of the config',
  });
}
