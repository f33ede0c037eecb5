import type { Logger } from 'pino';
import type { SourceSettings } from '../config/settings.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { GovernorFigures } from '../http/rate-limit/rate-limiter.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import { repeatUntilAborted, sleepOrAbort, untilAborted } from '../model/waiting.ts';
import type { Drain } from './inbox/drain.ts';
import { createPings, type Pings } from './ping.ts';
import type { ScheduleFigures, ScheduleParts } from './schedule/resource.ts';
import { Scheduler } from './schedule/scheduler.ts';
import { syncedResources } from './start-drain.ts';

/** Who does the work on a source: this process (`local-work.ts`), or any process of the cluster (`cluster/join-cluster.ts`). */
export interface SourceWork {
  /** Milliseconds between two rounds of upkeep. */
  readonly upkeepMs: number;
  /** True to check what is due at every full minute too. */
  readonly hasTick: boolean;
  /** Opens the source; `opened` closes it again. Throws if it cannot be opened. */
  open(opened: AsyncDisposableStack, stopping: AbortSignal): Promise<OpenSource>;
  /** Null while this process sends no requests. */
  governor(): GovernorFigures | null;
  /** Called when deliveries have been stored. */
  wake(): void;
  /** Forgets that the service has refused a credential or a record, with `now` also waits that it has stated. */
  retry(now: boolean): Promise<void>;
  /** Called when resources have been paused or resumed. */
  pausesChanged(): Promise<void>;
}

/** Gives an open warehouse to `work`; throws the reason if there is none. */
export type ReadStored = <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;

/** A source that is open. */
export interface OpenSource {
  /** Runs work that only reads what is stored. */
  read: ReadStored;
  checkpoints: ScheduleParts['checkpoints'];
  isPaused: ScheduleParts['isPaused'];
  walk: ScheduleParts['run'];
  /** Starts to work on deliveries; null if that is not up to the keeper. */
  startDrain(requestWalk: Scheduler['requestWalk']): Pick<Drain, 'stop'> | null;
  /** Housekeeping jobs; one that hangs does not delay the others. */
  upkeep: readonly ((signal: AbortSignal) => Promise<void>)[];
}

interface KeeperOptions {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  work: SourceWork;
}

/** Between two attempts to open a source that cannot be opened, such as one whose disk is not mounted yet. */
const REOPEN_MS = 15_000;

/**
 * Keeps one source fresh until it is stopped: opens it, runs what is due while it leads the source, and opens it again
 * after a failure. Errors in the source are logged and never end the keeper.
 */
export class Keeper {
  readonly #options: KeeperOptions;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>;
  #open: OpenSource | null = null;
  /** Why the source is not open. */
  #problem: unknown = opening();
  #scheduler: Scheduler | null = null;
  #isLed = false;
  /** Aborted when the lead is gained or lost. */
  #term = new AbortController();

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#ended = this.#keep();
  }

  /** Throws the reason if the source cannot be opened. */
  readonly read: ReadStored = async (work) => {
    if (this.#open === null) throw this.#problem;
    return this.#open.read(work);
  };

  governor(): GovernorFigures | null {
    return this.#options.work.governor();
  }

  /** Empty while this process does not lead the source. */
  schedule(): ScheduleFigures[] {
    return this.#scheduler?.figures() ?? [];
  }

  /** Called when deliveries have been stored. */
  wake(): void {
    this.#options.work.wake();
  }

  /** Runs what is due; null while this process does not lead the source. */
  get scheduler(): Scheduler | null {
    return this.#scheduler;
  }

  /** Of the source, in the settings of this process. */
  get name(): string {
    return this.#options.source.name;
  }

  /** True while this process leads the source. */
  get isLed(): boolean {
    return this.#isLed;
  }

  /** Forgets what was refused of these resources, so that the service is asked again. */
  async retry(resources: readonly string[], now: boolean): Promise<void> {
    await this.#options.work.retry(now);
    this.#scheduler?.retry(resources);
  }

  /** Called when resources have been paused or resumed. */
  async pausesChanged(): Promise<void> {
    await this.#options.work.pausesChanged();
    await this.#scheduler?.honourPauses();
  }

  /** Says whether this process leads the source from now on: only the leader runs what is due. */
  lead(isLed: boolean): void {
    if (isLed === this.#isLed) return;
    this.#isLed = isLed;
    this.#term.abort(interruption());
    this.#term = new AbortController();
  }

  /** Stops what is under way, for a reason that its runs are told, and waits for it. */
  async stop(reason = interruption()): Promise<void> {
    this.#stopping.abort(reason);
    await this.#ended;
  }

  async #keep(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#whileOpen();
      } catch (error) {
        this.#problem = error;
        if (error !== signal.reason) log.error({ error }, `the source cannot be opened: ${messageOf(error)}`);
      }
      await sleepOrAbort(clock, REOPEN_MS, signal);
    }
  }

  /** Opens the source and keeps it until it is stopped. */
  async #whileOpen(): Promise<void> {
    await using opened = new AsyncDisposableStack();
    const { source, log, work } = this.#options;
    const stopping = this.#stopping.signal;
    const pings = createPings(source.ping, log);
    opened.defer(() => pings.close());
    const open = await work.open(opened, stopping);
    this.#open = open;
    this.#problem = opening();
    opened.defer(() => {
      this.#open = null;
    });
    while (!stopping.aborted) {
      const term = AbortSignal.any([stopping, this.#term.signal]);
      await (this.#isLed ? this.#work(open, pings, term) : untilAborted(term));
    }
  }

  async #work(open: OpenSource, pings: Pings, term: AbortSignal): Promise<void> {
    const { clock, log, work } = this.#options;
    const scheduler = this.#createScheduler(open, pings);
    const drain = open.startDrain(scheduler.requestWalk);
    this.#scheduler = scheduler;
    scheduler.start();
    const failed = (error: unknown): void => log.warn({ error }, `the upkeep was put off: ${messageOf(error)}`);
    const period = { clock, everyMs: work.upkeepMs, signal: term, failed };
    await Promise.all(open.upkeep.map((job) => repeatUntilAborted(period, () => job(term))));
    this.#scheduler = null;
    // Together: the drain finishes the readings in hand, but not the walks that it waits for.
    await Promise.all([scheduler.stop(), drain?.stop()]);
  }

  #createScheduler({ checkpoints, isPaused, walk }: OpenSource, pings: Pings): Scheduler {
    const { source, clock, log, work } = this.#options;
    return new Scheduler({
      hasTick: work.hasTick,
      source: source.name,
      resources: syncedResources(source),
      schedule: source.schedule,
      clock,
      checkpoints,
      isPaused,
      run: (resource, ...asked) => pings.around([resource], () => walk(resource, ...asked)),
      failed: (resource, error) => log.error({ resource, error }, `the run did not begin: ${messageOf(error)}`),
    });
  }
}

function opening(): SyncError {
  return new SyncError('warehouse_opening', 'the warehouse is being opened', { recovery: 'retry' });
}

/** The reason with which everything is aborted that goes on in a source. */
export function interruption(): SyncError {
  return new SyncError('interrupted', 'serve is ending', { recovery: 'stop' });
}
