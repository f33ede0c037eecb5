import { SyncError, messageOf } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { GovernorFigures } from '../../queue/governor.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { releasedResources } from '../../state/suspects.ts';
import type { RunReport } from '../../sync/report.ts';
import { createPings } from '../../trigger/ping.ts';
import type { ScheduleFigures } from '../../trigger/schedule/resource.ts';
import { createScheduler, type Scheduler } from '../../trigger/schedule/scheduler.ts';
import type { TickSource } from '../../trigger/schedule/tick.ts';
import { queueName } from '../work-items/queue-name.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import { NAMED, type NameState } from '../../warehouse/name-state.ts';
import { openWarehouse } from '../../warehouse/open.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { syncedResources } from '../drain-for.ts';
import { hintOf, REOPEN_MS, type KeeperOptions, type SourceKeeper } from '../source-keeper.ts';
import { askWalk } from './ask-walk.ts';
import { successOf } from './do-walk.ts';
import type { ClusterWork } from './cluster-work.ts';

interface TogetherOptions extends Omit<KeeperOptions, 'watcher' | 'secrets'> {
  working: ClusterWork;
  /** Opens sources, some at a time; hundreds start together. */
  opening: { add<T>(work: () => Promise<T>): Promise<T> };
  /** Null where no webhooks are received. */
  inbox: Pick<Inbox, 'waiting'> | null;
}

/** A source that is kept together with other processes: whoever leads it asks for work, and anybody does it. */
export interface TogetherKeeper extends SourceKeeper {
  /** Whether this process leads the source from now on. */
  lead(isLed: boolean): void;
}

/** How often it is looked for what waits without an item. */
const UPKEEP_MS = 20_000;
/** Hundreds of sources need no common beat: each looks when something is due, and now and then. */
const NO_TICKS: TickSource = () => ({ stop: () => undefined });

export function keepWithOthers(options: TogetherOptions): TogetherKeeper {
  return new Keeper(options);
}

class Keeper implements TogetherKeeper {
  readonly #options: TogetherOptions;
  /** In the queue. */
  readonly #name: string;
  readonly #stopping = new AbortController();
  readonly #opened: Promise<Warehouse>;
  #warehouse: Warehouse | null = null;
  #problem: unknown = new SyncError('warehouse_opening', 'the warehouse is being opened', { recovery: 'retry' });
  #scheduler: Scheduler | null = null;
  #term: { over: AbortController; ended: Promise<void> } | null = null;
  /** Terms follow each other: the next one begins when the one before has ended. */
  #ended: Promise<void> = Promise.resolve();

  constructor(options: TogetherOptions) {
    this.#options = options;
    this.#name = queueName(options.source.warehouse);
    this.#opened = this.#open();
    // Whoever waits for it is told; nobody may.
    this.#opened.catch(() => undefined);
  }

  warehouse(): Warehouse {
    if (this.#warehouse === null) throw this.#problem;
    return this.#warehouse;
  }

  nameState(): NameState {
    return NAMED;
  }

  governor(): GovernorFigures | null {
    return this.#options.working.apps.at(this.#name)?.governor.figures() ?? null;
  }

  schedule(): ScheduleFigures[] {
    return this.#scheduler?.figures() ?? [];
  }

  wake(): void {
    this.#options.working.wake(this.#name);
  }

  lead(isLed: boolean): void {
    if (isLed === (this.#term !== null) || this.#stopping.signal.aborted) return;
    this.#term?.over.abort(interruption());
    this.#term = null;
    if (!isLed) return;
    const over = new AbortController();
    const ended = this.#ended.then(() => this.#leadUntil(over.signal));
    this.#term = { over, ended };
    this.#ended = ended;
  }

  async stop(): Promise<void> {
    this.lead(false);
    this.#stopping.abort(interruption());
    await this.#ended;
    await this.#opened.then(
      (warehouse) => warehouse.close(),
      () => undefined,
    );
  }

  async #open(): Promise<Warehouse> {
    const { source, clock, log, opening } = this.#options;
    const { signal } = this.#stopping;
    for (;;) {
      signal.throwIfAborted();
      try {
        this.#warehouse = await opening.add(() => {
          signal.throwIfAborted();
          return openWarehouse(source.warehouse, clock);
        });
        return this.#warehouse;
      } catch (error) {
        signal.throwIfAborted();
        this.#problem = error;
        log.error({ err: error, hint: hintOf(error) }, `the source cannot be opened: ${messageOf(error)}`);
      }
      await clock.sleep(REOPEN_MS, signal);
    }
  }

  /** Never rejects. */
  async #leadUntil(over: AbortSignal): Promise<void> {
    const { source, log } = this.#options;
    const given = new Promise<null>((resolve) => over.addEventListener('abort', () => resolve(null)));
    const warehouse = over.aborted ? null : await Promise.race([given, this.#opened.catch(() => null)]);
    if (warehouse === null) return;
    const pings = createPings(source.ping, log);
    const around = (resource: string, work: () => Promise<RunReport>) => pings.around([resource], work);
    this.#scheduler = this.#schedule(warehouse, around);
    this.#scheduler.start();
    await this.#upkeep(warehouse, over);
    await this.#scheduler.stop();
    this.#scheduler = null;
    await pings.close();
  }

  #schedule(
    { own }: Warehouse,
    around: (resource: string, work: () => Promise<RunReport>) => Promise<RunReport>,
  ): Scheduler {
    const { source, clock, log, working } = this.#options;
    return createScheduler({
      source: source.name,
      resources: syncedResources(source),
      schedule: source.schedule,
      clock,
      ticks: NO_TICKS,
      checkpoints: (resource) => readCheckpoint(own, resource),
      run: async (resource, command, signal) => {
        const seen = successOf(command, await readCheckpoint(own, resource));
        const item = { kind: 'walk', source: this.#name, resource, command, seen } as const;
        return around(resource, () => askWalk(working.queue, item, signal));
      },
      failed: (resource, error) =>
        log.error({ resource, err: error, hint: hintOf(error) }, `the run did not begin: ${messageOf(error)}`),
    });
  }

  /** Asks for what waits although nobody was asked to do it, such as deliveries whose time has come. */
  async #upkeep(warehouse: Warehouse, over: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    while (!over.aborted) {
      try {
        await this.#askForWaiting(warehouse);
      } catch (error) {
        if (!over.aborted) log.warn({ err: error }, `the upkeep was put off: ${messageOf(error)}`);
      }
      await clock.sleep(UPKEEP_MS, over).catch(() => undefined);
    }
  }

  async #askForWaiting({ own }: Warehouse): Promise<void> {
    const { clock, inbox, working } = this.#options;
    const { queue } = working;
    for (const resource of await releasedResources(own)) {
      await queue.put({ kind: 'settle', source: this.#name, resource });
    }
    const [first] = (await inbox?.waiting(0, timestampText(clock.now()), 1)) ?? [];
    if (first !== undefined) await queue.put({ kind: 'drain', source: this.#name });
  }
}

function interruption(): SyncError {
  return new SyncError('interrupted', 'the lead of the source is given up', { recovery: 'stop' });
}
