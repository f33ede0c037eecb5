import { type Logger, schedule } from 'node-cron';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { ScheduleSettings } from '../../config/settings.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { timesOf } from './due.ts';
import { ResourceSchedule, type ScheduleFigures, type ScheduleParts } from './resource.ts';

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
  /** Walks now, as `ResourceSchedule.walkNow` does. Rejects with `SyncError('unknown_resource')` too. */
  walkNow(resource: string, command: SyncCommand): Promise<RunReport>;
  /** Forgets failures of these resources, and the wait after them. */
  retry(resources: readonly string[]): void;
  /** Reads again which resources are paused; walks of those end at the page in hand. */
  honourPauses(): Promise<void>;
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
  const scheduleOf = (resource: string): ResourceSchedule => {
    stopping.signal.throwIfAborted();
    const known = schedules.get(resource);
    if (known === undefined) throw unknownResource(resource);
    return known;
  };
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
      stopping.abort(new SyncError('interrupted', 'the schedule was stopped', { recovery: 'stop' }));
      wakeAll();
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

/** Calls back now and then, with or without a reason, until it is stopped. */
export type TickSource = (tick: () => void) => { stop(): void };

const EVERY_MINUTE = '* * * * *';

/**
 * A tick at every full minute. In UTC, for which node-cron is right at all times of the year, and only as a hint: the
 * stored state says what is due, so a tick too few or too many changes nothing.
 */
export function cronTick(expression = EVERY_MINUTE): TickSource {
  return (tick) => {
    const options = { timezone: 'UTC', noOverlap: true, suppressMissedWarning: true, logger: QUIET };
    const task = schedule(expression, tick, options);
    return { stop: () => void task.destroy() };
  };
}

/** One source of ticks for many: it ticks while somebody listens. */
export function sharedTicks(ticks: TickSource): TickSource {
  const listeners = new Set<() => void>();
  let ticking: { stop(): void } | null = null;
  return (tick) => {
    const listener = (): void => tick();
    listeners.add(listener);
    ticking ??= ticks(() => listeners.forEach((each) => each()));
    return {
      stop: () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        ticking?.stop();
        ticking = null;
      },
    };
  };
}

/** Ticks that come late are not worth a message, and the console is not our log. */
const nothing = (): void => undefined;
const QUIET: Logger = { info: nothing, warn: nothing, error: nothing, debug: nothing };
