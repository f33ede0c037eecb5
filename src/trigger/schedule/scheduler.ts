import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { ScheduleSettings } from '../../settings/settings.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { ResourceSchedule, type ScheduleFigures, type ScheduleParts } from './resource.ts';
import { cronTick, type TickSource } from './tick.ts';
import { timesOf } from './times.ts';

export interface SchedulerOptions {
  /** Name of the source. */
  source: string;
  /** The resources to keep fresh, by name. */
  resources: Readonly<Record<string, Pick<ResourceProfile, 'incremental'>>>;
  schedule: ScheduleSettings;
  clock: Clock;
  checkpoints: ScheduleParts['checkpoints'];
  run: ScheduleParts['run'];
  failed: ScheduleParts['failed'];
  /** Every full minute if absent. */
  ticks?: TickSource;
}

/** Keeps the resources of one source fresh, each for itself: one that hangs or fails never delays another. */
export interface Scheduler {
  /** Begins to look, at once and with every tick. */
  start(): void;
  /** Aborts what is running, with `SyncError('interrupted')`, and waits until it has ended. */
  stop(): Promise<void>;
  /**
   * Asks for a walk of the resource as soon as it may be, a whole one for `backfill`. Resolves once such a walk that
   * began after the request has come to its end, however many attempts that takes; rejects with `SyncError('interrupted')` when the scheduler stops,
   * and with `SyncError('unknown_resource')`.
   */
  requestWalk(this: void, resource: string, command: SyncCommand): Promise<void>;
  figures(): ScheduleFigures[];
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { source, schedule, resources, ticks = cronTick(), ...parts } = options;
  const stopping = new AbortController();
  const schedules = new Map(
    Object.entries(resources).map(([resource, { incremental }]) => {
      const times = timesOf({ source, resource, hasFilter: incremental !== null }, schedule);
      return [resource, new ResourceSchedule({ ...parts, resource, times })];
    }),
  );
  const wakeAll = (): void => {
    for (const each of schedules.values()) each.wake();
  };
  let loops: Promise<void>[] = [];
  let tick: { stop(): void } | null = null;
  return {
    start: () => {
      tick = ticks(wakeAll);
      loops = [...schedules.values()].map((each) => each.work(stopping.signal));
    },
    stop: async () => {
      tick?.stop();
      stopping.abort(interruption());
      wakeAll();
      await Promise.all(loops);
    },
    requestWalk: async (resource, command) => {
      stopping.signal.throwIfAborted();
      const known = schedules.get(resource);
      if (known === undefined) throw unknownResource(resource);
      await known.request(command);
    },
    figures: () => Array.from(schedules.values(), (each) => each.figures()),
  };
}

function interruption(): SyncError {
  return new SyncError('interrupted', 'the schedule was stopped', { recovery: 'stop' });
}

function unknownResource(resource: string): SyncError {
  return new SyncError('unknown_resource', `"${resource}" is not a resource that is synced`, {
    recovery: 'skip',
    hint: 'check resource_names and kinds of the profile, and resources of the config',
  });
}
