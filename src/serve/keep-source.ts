import { openApp, type App } from '../app.ts';
import { SyncError, messageOf } from '../model/errors.ts';
import type { GovernorFigures } from '../queue/governor.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import type { RunReport } from '../sync/report.ts';
import type { Drain } from '../trigger/drain/options.ts';
import { createPings } from '../trigger/ping.ts';
import type { ScheduleFigures } from '../trigger/schedule/resource.ts';
import { createScheduler, type Scheduler } from '../trigger/schedule/scheduler.ts';
import { NAMED, type NameState } from '../warehouse/name-state.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { ReceivedInbox } from '../web/receiver/start-receiver.ts';
import { drainFor, refetchBy, syncedResources } from './drain-for.ts';
import { hintOf, REOPEN_MS, type KeeperOptions, type SourceKeeper } from './source-keeper.ts';
import { untilReopening } from './watch-names.ts';

/** How often the write-ahead log is looked after, and what a person has decided about deletes is carried out. */
const UPKEEP_MS = 10_000;

interface AloneOptions extends KeeperOptions {
  /** Null where no webhooks are received. */
  inbox: ReceivedInbox | null;
}

/** What works on a source once it is open. */
interface OpenSource {
  app: App;
  scheduler: Scheduler;
  drain: Drain | null;
}

/** Where one process does all the work: it owns the source's resources, whether they are worked on or not. */
export function keepSource(options: AloneOptions): SourceKeeper {
  return new Keeper(options);
}

class Keeper implements SourceKeeper {
  readonly #options: AloneOptions;
  readonly #stopping = new AbortController();
  readonly #work: Promise<void>;
  /** Resources that are owned until the end, whether they are worked on or not. */
  readonly #held = new Map<string, OwnedResource>();
  #open: OpenSource | null = null;
  #problem: unknown = null;
  /** Its files were moved or replaced: what is open is closed, and opened anew. */
  #isReopening = false;

  constructor(options: AloneOptions) {
    this.#options = options;
    this.#work = this.#keep();
  }

  warehouse(): Warehouse {
    if (this.#open === null) throw this.#problem;
    return this.#open.app.warehouse;
  }

  nameState(): NameState {
    return this.#open?.app.warehouse.nameState() ?? NAMED;
  }

  governor(): GovernorFigures | null {
    return this.#open?.app.governor.figures() ?? null;
  }

  schedule(): ScheduleFigures[] {
    return this.#open?.scheduler.figures() ?? [];
  }

  wake(): void {
    this.#open?.drain?.wake();
  }

  async stop(): Promise<void> {
    this.#stopping.abort(ending());
    await this.#work;
  }

  async #keep(): Promise<void> {
    const { clock, log, inbox } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#isReopening = false;
      try {
        // Only here, where nothing of the old one is in hand any more.
        if (inbox?.nameState().is === 'replaced') await inbox.reopen();
        await this.#serve();
      } catch (error) {
        this.#problem = error;
        // What could not be stored at the end in a file that was replaced is no reason not to open the new one.
        if (!this.#isReopening) {
          log.error({ err: error, hint: hintOf(error) }, `the source cannot be opened: ${messageOf(error)}`);
        }
      }
      // An abort ends the pause as its own end does.
      if (!this.#isReopening) await clock.sleep(REOPEN_MS, signal).catch(() => undefined);
    }
  }

  /** Until it is stopped or has to be opened anew; throws where the source cannot be opened. */
  async #serve(): Promise<void> {
    await using opened = new AsyncDisposableStack();
    const { source, clock, log, secrets, watcher } = this.#options;
    const app = await openApp({ source, clock, log, secrets, attempted: (event) => watcher.attempted(event) });
    opened.defer(() => app.close());
    const pings = createPings(source.ping, log);
    opened.defer(() => pings.close());
    const reading = new AbortController();
    opened.defer(() => reading.abort(ending()));
    opened.defer(() => this.#letGo());
    await this.#hold(app);
    const scheduler = this.#schedule(app, (resource, work) => pings.around([resource], work));
    const persist = (): Promise<void> => app.warehouse.persist();
    const way = { walk: scheduler.requestWalk, refetch: refetchBy(app, reading.signal), persist };
    const drain = drainFor(this.#options, this.#options.inbox, way);
    // At once: what the drain has in hand is read to its end, but not the walks that it waits for.
    opened.defer(async () => void (await Promise.all([scheduler.stop(), drain?.stop()])));
    this.#problem = null;
    this.#options.inbox?.hold(false);
    this.#open = { app, scheduler, drain };
    opened.defer(() => {
      this.#open = null;
    });
    scheduler.start();
    const lost = new AbortController();
    const upkeep = this.#upkeep(app, AbortSignal.any([this.#stopping.signal, lost.signal]));
    const names = (): NameState[] => [this.nameState(), this.#options.inbox?.nameState() ?? NAMED];
    const hold = (): void => this.#options.inbox?.hold(true);
    await untilReopening(names, { clock, log, lost: hold, signal: this.#stopping.signal });
    this.#isReopening = !this.#stopping.signal.aborted;
    if (this.#isReopening) log.info('opening the files of the warehouse anew');
    lost.abort(ending());
    await upkeep;
  }

  #schedule(app: App, around: (resource: string, work: () => Promise<RunReport>) => Promise<RunReport>): Scheduler {
    const { source, clock, log, watcher } = this.#options;
    return createScheduler({
      source: source.name,
      resources: syncedResources(source),
      schedule: source.schedule,
      clock,
      checkpoints: (resource) => readCheckpoint(app.warehouse.own, resource),
      run: (resource, command, signal) => {
        // By name: what the schedule calls a full walk is one, also where an earlier backfill was interrupted.
        const commands = { [resource]: command };
        const asked = { command: commands, resources: [resource], restart: false, signal, watcher };
        return around(resource, () => app.sync(asked));
      },
      failed: (resource, error) =>
        log.error({ resource, err: error, hint: hintOf(error) }, `the run did not begin: ${messageOf(error)}`),
    });
  }

  /** Makes this process the owner of what it is not yet, so that nobody starts a backfill beside it. */
  async #hold(app: App): Promise<void> {
    for (const resource of app.source.resources) {
      if (this.#held.has(resource)) continue;
      await app.ownedResources.acquire(resource).then(
        (owned) => this.#held.set(resource, owned),
        // Another process is at work: it is tried again soon, and the page says who it is.
        (error: unknown) => {
          if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
        },
      );
    }
  }

  async #letGo(): Promise<void> {
    for (const owned of this.#held.values()) await owned.release(true);
    this.#held.clear();
  }

  /** Housekeeping, until the signal; a service that keeps one part waiting does not keep the other. */
  async #upkeep(app: App, signal: AbortSignal): Promise<void> {
    const own = async (): Promise<void> => {
      await app.warehouse.upkeep();
      await this.#hold(app);
    };
    const settle = async (): Promise<void> => {
      for (const resource of this.#held.keys()) await app.settleReleased(resource, signal);
    };
    await Promise.all([this.#nowAndThen(own, signal), this.#nowAndThen(settle, signal)]);
  }

  async #nowAndThen(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    while (!signal.aborted) {
      try {
        await work();
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, `the upkeep was put off: ${messageOf(error)}`);
      }
      await clock.sleep(UPKEEP_MS, signal).catch(() => undefined);
    }
  }
}

function ending(): SyncError {
  return new SyncError('interrupted', 'serve is ending', { recovery: 'stop' });
}
