import { type Logger, type ScheduledTask, schedule } from 'node-cron';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { ScheduleSettings } from '../../config/settings.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { timesOf } from './due.ts';
import { ResourceSchedule, type ScheduleFigures, type ScheduleParts } from './resource.ts';

export interface SchedulerOptions extends Omit<ScheduleParts, 'resource' | 'times'> {
  /** Name of the source. */
  source: string;
  /** The resources to keep fresh, by name. */
  resources: Readonly<Record<string, Pick<ResourceProfile, 'incremental'>>>;
  schedule: ScheduleSettings;
  clock: Clock;
  /** True to check what is due at every full minute too. */
  hasTick: boolean;
}

/**
 * The tick is only a hint, because the stored state says what is due. It is in UTC, for which node-cron is right at all
 * times of the year.
 */
const EVERY_MINUTE = '* * * * *';
const nothing = (): void => undefined;
const SILENT_LOGGER: Logger = { info: nothing, warn: nothing, error: nothing, debug: nothing };
const TICK_OPTIONS = { timezone: 'UTC', noOverlap: true, suppressMissedWarning: true, logger: SILENT_LOGGER };

/** Keeps the resources of one source fresh, independently: one that hangs or fails never delays another. */
export class Scheduler {
  readonly #schedules: ReadonlyMap<string, ResourceSchedule>;
  readonly #stopping = new AbortController();
  #loops: Promise<void>[] = [];
  #tick: ScheduledTask | null = null;
  readonly #hasTick: boolean;

  constructor({ source, schedule, resources, hasTick, ...parts }: SchedulerOptions) {
    this.#hasTick = hasTick;
    const schedules = Object.entries(resources).map(([resource, { incremental }]) => {
      const times = timesOf({ source, resource, hasFilter: incremental !== null }, schedule);
      return [resource, new ResourceSchedule({ ...parts, resource, times })] as const;
    });
    this.#schedules = new Map(schedules);
  }

  /** Checks what is due, at once and with every tick. */
  start(): void {
    if (this.#hasTick) this.#tick = schedule(EVERY_MINUTE, () => this.#wakeAll(), TICK_OPTIONS);
    this.#loops = Array.from(this.#schedules.values(), (each) => each.work(this.#stopping.signal));
  }

  /** Aborts running scans with `SyncError('interrupted')`, and waits until they have ended. */
  async stop(): Promise<void> {
    void this.#tick?.destroy();
    this.#stopping.abort(new SyncError('interrupted', 'the schedule was stopped', { recovery: 'stop' }));
    this.#wakeAll();
    await Promise.all(this.#loops);
  }

  /**
   * As `ResourceSchedule.request`. Rejects with `SyncError('interrupted')` when the scheduler stops, and with
   * `SyncError('unknown_resource')`.
   */
  readonly requestWalk = async (resource: string, command: SyncCommand): Promise<void> =>
    this.#scheduleOf(resource).request(command);

  /** As `ResourceSchedule.walkNow`. Rejects with `SyncError('unknown_resource')` too. */
  async walkNow(resource: string, command: SyncCommand): Promise<RunReport> {
    return this.#scheduleOf(resource).walkNow(command);
  }

  /** Forgets failures of these resources, and the wait after them. */
  retry(resources: readonly string[]): void {
    for (const resource of resources) this.#schedules.get(resource)?.retry();
  }

  /** Reads which resources are paused; stops scans of those after their current page. */
  async honourPauses(): Promise<void> {
    await Promise.all(Array.from(this.#schedules.values(), (each) => each.honourPause()));
  }

  figures(): ScheduleFigures[] {
    return Array.from(this.#schedules.values(), (each) => each.figures());
  }

  #wakeAll(): void {
    for (const each of this.#schedules.values()) each.wake();
  }

  #scheduleOf(resource: string): ResourceSchedule {
    this.#stopping.signal.throwIfAborted();
    const known = this.#schedules.get(resource);
    if (known !== undefined) return known;
    throw new SyncError('unknown_resource', `"${resource}" is not a resource that is synced`, {
      recovery: 'skip',
      hint: 'check resource_names and kinds of the profile, and resources of the config',
    });
  }
}
