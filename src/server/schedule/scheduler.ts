// The schedules of all resources of one source.
import { type Logger, schedule as scheduleTask, type ScheduledTask } from 'node-cron';
import type { ScheduleSettings } from '../../config/settings.ts';
import { SyncError } from '../../model/errors.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { resourceTimes } from './due.ts';
import { ResourceSchedule, type ScheduleState, type ScheduleParts } from './resource.ts';

export interface SchedulerOptions extends Omit<ScheduleParts, 'resource' | 'times'> {
  source: string;
  /** The resources to keep fresh, by name; `incremental` is null if the service cannot list changes only. */
  resources: Readonly<Record<string, { incremental: object | null }>>;
  schedule: ScheduleSettings;
}

const EVERY_MINUTE = '* * * * *';
const nothing = (): void => undefined;
const SILENT_LOGGER: Logger = { info: nothing, warn: nothing, error: nothing, debug: nothing };

/** Keeps the resources of one source fresh, independently: one that hangs or fails never delays another. */
export class Scheduler {
  readonly #schedules: ReadonlyMap<string, ResourceSchedule>;
  readonly #stopping = new AbortController();
  #loops: Promise<void>[] = [];
  #check: ScheduledTask | null = null;

  constructor({ source, schedule, resources, ...parts }: SchedulerOptions) {
    const schedules = Object.entries(resources).map(([resource, { incremental }]) => {
      const times = resourceTimes({ source, resource, hasFilter: incremental !== null }, schedule);
      return [resource, new ResourceSchedule({ ...parts, resource, times })] as const;
    });
    this.#schedules = new Map(schedules);
  }

  /** Runs what is due from now on. */
  start(): void {
    // A schedule sleeps until its next time; after a suspend, or a change of the clock or the stored state, it is woken.
    this.#check = scheduleTask(EVERY_MINUTE, () => this.#wakeAll(), {
      timezone: 'UTC',
      noOverlap: true,
      suppressMissedWarning: true,
      logger: SILENT_LOGGER,
    });
    this.#loops = Array.from(this.#schedules.values(), (each) => each.work(this.#stopping.signal));
  }

  /** Aborts running scans with `SyncError('interrupted')`, and waits until they have ended. */
  async stop(): Promise<void> {
    void this.#check?.destroy();
    this.#stopping.abort(new SyncError('interrupted', 'the schedule was stopped', { recovery: 'stop' }));
    await Promise.all(this.#loops);
  }

  /**
   * As `ResourceSchedule.requestScan`, for a user. Rejects with `SyncError('interrupted')` when the scheduler stops, and
   * with `SyncError('settings_invalid')`.
   */
  readonly scanNow = async (resource: string, command: SyncCommand): Promise<RunReport> =>
    this.#scheduleOf(resource).requestScan(command, true);

  /** As `scanNow`, for a delivery: after a failure, or if the service requested a wait, it waits as long as the schedule. */
  readonly scanWhenAllowed = async (resource: string, command: SyncCommand): Promise<RunReport> =>
    this.#scheduleOf(resource).requestScan(command, false);

  /** Forgets failures of these resources, and the wait after them. */
  retry(resources: readonly string[]): void {
    for (const resource of resources) this.#schedules.get(resource)?.retry();
  }

  states(): ScheduleState[] {
    return Array.from(this.#schedules.values(), (each) => each.state());
  }

  #wakeAll(): void {
    for (const each of this.#schedules.values()) each.wake();
  }

  #scheduleOf(resource: string): ResourceSchedule {
    this.#stopping.signal.throwIfAborted();
    const known = this.#schedules.get(resource);
    if (known !== undefined) return known;
    throw new SyncError('settings_invalid', `"${resource}" is not a resource that is synced`, {
      recovery: 'skip',
      hint: 'check resource_names and kinds of the profile, and resources of the config',
    });
  }
}
