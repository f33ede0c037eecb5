// Runs the schedules of one source: keeps each of its resources fresh, independently of the others. If the listing of
// `images` hangs or fails, `content` is still synced on time.
import { type Logger, schedule as scheduleTask, type ScheduledTask } from 'node-cron';
import type { ScheduleSettings } from '../../config/settings.ts';
import { SyncError } from '../../model/errors.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { resourceTimes } from './due.ts';
import { ResourceSchedule, type ScheduleParts, type ScheduleState } from './resource.ts';

export interface SchedulerOptions extends Omit<ScheduleParts, 'resource' | 'times'> {
  source: string;
  /** The resources to keep fresh, by name; `incremental` is null if the service cannot list changes only. */
  resources: Readonly<Record<string, { incremental: object | null }>>;
  schedule: ScheduleSettings;
}

const EVERY_MINUTE = '* * * * *';
const nothing = (): void => undefined;
const SILENT_LOGGER: Logger = { info: nothing, warn: nothing, error: nothing, debug: nothing };

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

  start(): void {
    // Each schedule sleeps until its next time. It is woken every minute, because the machine may have been suspended, or
    // the clock or the stored state may have changed.
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
   * Scans a resource for a user, at once or after the scan in progress, and returns the report of that scan. Throws
   * `SyncError('settings_invalid')` for an unknown resource, and `SyncError('interrupted')` when the scheduler stops.
   */
  readonly scanNow = async (resource: string, command: SyncCommand): Promise<RunReport> =>
    this.#scheduleOf(resource).requestScan(command, true);

  /** Scans a resource for a webhook: waits if the schedule waits, after a failure or because the service requested it. */
  readonly scanWhenAllowed = async (resource: string, command: SyncCommand): Promise<RunReport> =>
    this.#scheduleOf(resource).requestScan(command, false);

  /** Forgets that these resources failed, so that they are scanned without the wait after a failure. */
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
