// What one of several processes does for the sources of a Postgres database that they share: it takes syncs and deliveries
// from the common queue, and leads sources that no other process leads (the leader runs the schedule). To drain a source is
// to process the webhook deliveries that wait in its inbox; a drain item in the queue says that some wait.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { inboxAddress, openInbox } from '../../database/databases.ts';
import type { Inbox } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { SharedResources } from '../../model/shared-resources.ts';
import { type App, openApp } from '../app.ts';
import { OWNED_LINGER_MS } from '../local-work.ts';
import { createCountToLog } from '../rare-log.ts';
import type { SourceSupervisor, WatchedSource } from '../source-supervisor.ts';
import { type ItemEnd, type ItemOf, queueName } from '../work-items/work-items.ts';
import { WorkQueue } from '../work-items/work-queue.ts';
import { electLeader } from './keep-lead.ts';
import { performScan, type ScanItemResult, toErrorResult } from './scan-item.ts';
import { type DrainScope, SourceDrain } from './source-drain.ts';

interface OpenApp extends AsyncDisposable {
  app: App;
  inbox: Inbox | null;
}

export interface ClusterOptions {
  clock: Clock;
  log: Logger;
  secrets: string[];
  /** Syncs in parallel in each database. */
  atOnce?: number | undefined;
}

interface ClusterWorkOptions extends ClusterOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
}

const MAX_PARALLEL_SCANS = 8;
/** Drains mostly wait for deliveries or for the service, so that many can run in parallel. */
const MAX_DRAINS = 64;
/** A drain waits this long for further deliveries, so that a burst of them needs only one item. */
const DRAIN_LINGER_MS = 10_000;
/** In a burst of deliveries, drain items are requested at most this often. */
const WAKE_INTERVAL_MS = 250;
/** A source stays open this long after its last use. */
const OPEN_LINGER_MS = 60_000;
/** If more sources are idle, they are closed earlier: each of hundreds of sources is used only briefly. */
const MAX_IDLE = 16;
const MAX_PARALLEL_OPENINGS = 4;

/** The work of this process on the sources of one database. It begins as soon as the queue can be opened. */
export class ClusterWork {
  readonly queue: WorkQueue;
  /** Opening a source takes many queries, so only a few are opened in parallel. */
  readonly opening = new PQueue({ concurrency: MAX_PARALLEL_OPENINGS });
  readonly #options: ClusterWorkOptions;
  readonly #failed: (error: unknown) => void;
  /** The sources, by their names in the queue, as in all maps below. */
  readonly #sources = new Map<string, WatchedSource>();
  readonly #drains = new Map<string, SourceDrain>();
  readonly #supervisors = new Map<string, SourceSupervisor>();
  /** The sources that this process leads, as of the last renewal. */
  #led: ReadonlySet<string> = new Set();
  /** Null in a process that leads no sources. */
  #election: ReturnType<typeof electLeader> | null = null;
  /** The sources that are open now. */
  readonly #apps: SharedResources<OpenApp>;
  #closingIdle = Promise.resolve();
  readonly #stopping = new AbortController();
  /** Work in progress on the sources, which `stop` awaits. */
  readonly #uses = new Set<Promise<unknown>>();
  #wokenAt = Number.NEGATIVE_INFINITY;

  constructor(options: ClusterWorkOptions) {
    const { address, clock, atOnce = MAX_PARALLEL_SCANS } = options;
    this.#options = options;
    this.#failed = errorLogger(options.log, clock);
    this.queue = new WorkQueue({ address, clock, failed: this.#failed });
    this.#apps = new SharedResources({
      open: (name) => this.opening.add(() => this.#open(name)),
      close: async (open) => open[Symbol.asyncDispose](),
      clock,
      lingerMs: OPEN_LINGER_MS,
    });
    // `walk` is the stored, older word for a scan.
    this.queue.work('walk', atOnce, (item, signal) => this.#scan(item, signal));
    this.queue.work('drain', MAX_DRAINS, (item, signal) => this.#drain(item, signal));
  }

  addSource(watched: WatchedSource): void {
    this.#sources.set(queueName(watched.source.warehouse), watched);
  }

  /** Leads a source from now on whenever no other process does, and tells its supervisor whether it is the leader. */
  addSupervisor(name: string, supervisor: SourceSupervisor): void {
    this.#supervisors.set(name, supervisor);
    supervisor.setLeader(this.#led.has(name));
    const { address, clock } = this.#options;
    const renewed = (led: ReadonlySet<string>): void => {
      this.#led = led;
      this.#supervisors.forEach((each, source) => each.setLeader(led.has(source)));
    };
    const sources = (): string[] => [...this.#supervisors.keys()];
    this.#election ??= electLeader({ address, sources, clock, failed: this.#failed, renewed });
  }

  /** Called when this process has stored deliveries of a source: its drain, or that of any process, then looks for items. */
  wake(name: string): void {
    const drain = this.#drains.get(name);
    drain?.wake();
    const now = this.#options.clock.monotonic();
    if (drain?.hasDrainItem === true || now - this.#wokenAt < WAKE_INTERVAL_MS) return;
    this.#wokenAt = now;
    this.queue.wake('drain');
  }

  /** Forgets that the service has refused a credential or a record; with `now` also waits that it requested, for all processes. */
  async retry(name: string, now: boolean): Promise<void> {
    await this.use(name, (app) => app.retry(now)).catch(() => undefined);
    this.#drains.get(name)?.retry();
  }

  /** The source if it is open now, else null. */
  peek(name: string): App | null {
    return this.#apps.peek(name)?.app ?? null;
  }

  /** Like `#withOpenSource`, but `stop()` waits for it. The work must end when the source's supervisor is stopped. */
  use<T>(name: string, work: (app: App) => Promise<T>): Promise<T> {
    return this.#track(this.#withOpenSource(name, ({ app }) => work(app)));
  }

  /** Returns the items in progress to the queue, gives up leadership, and closes. */
  async stop(): Promise<void> {
    await Promise.all([this.#stopWork(), this.#election?.stop()]);
  }

  async #stopWork(): Promise<void> {
    this.#stopping.abort(new SyncError('interrupted', 'the process is ending', { recovery: 'stop' }));
    await this.queue.close();
    while (this.#uses.size > 0) await Promise.allSettled(this.#uses);
    await this.#closingIdle;
    await this.#apps.close();
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const use = work.finally(() => this.#uses.delete(use));
    this.#uses.add(use);
    return use;
  }

  /** Runs work with a source open. Throws what opening throws, and `SyncError('unknown_source')`. */
  async #withOpenSource<T>(name: string, work: (open: OpenApp) => Promise<T>): Promise<T> {
    const acquired = await this.#apps.acquire(name);
    try {
      return await work(acquired.value);
    } finally {
      await acquired.release();
      this.#closingIdle = this.#closingIdle.then(() => this.#apps.closeIdle(MAX_IDLE)).catch(() => undefined);
    }
  }

  async #open(name: string): Promise<OpenApp> {
    const { clock, secrets } = this.#options;
    const watched = this.#sources.get(name);
    if (watched === undefined) throw unknownSource(name, [...this.#sources.keys()]);
    const { source, log, activity } = watched;
    await using opened = new AsyncDisposableStack();
    this.#stopping.signal.throwIfAborted();
    const { attempted } = activity;
    const app = await openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
    opened.defer(() => app.close());
    const inbox = source.webhook === null ? null : await openInbox(inboxAddress(source.warehouse), clock);
    if (inbox !== null) opened.defer(() => inbox.close());
    const stack = opened.move();
    return { app, inbox, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  }

  #scan(item: ItemOf<'walk'>, signal: AbortSignal): Promise<ItemEnd<ScanItemResult>> {
    const { source, resource } = item;
    const { clock, secrets } = this.#options;
    return this.#processItem(source, signal, async ({ watcher }) => {
      try {
        return await this.#withOpenSource(source, (open) =>
          // The process that scans a resource owns it, so only this one can store what its deliveries name meanwhile.
          this.#whileDraining(source, open, { resource }, () =>
            performScan({ app: open.app, clock, watcher, secrets }, item, signal),
          ),
        );
      } catch (error) {
        if (signal.aborted) throw error;
        return { is: 'done', result: toErrorResult(error, secrets) };
      }
    });
  }

  #drain({ source }: ItemOf<'drain'>, signal: AbortSignal): Promise<ItemEnd<null>> {
    return this.#processItem(source, signal, async () => {
      await this.#withOpenSource(source, (open) =>
        this.#whileDraining(source, open, { all: true }, async (drain) =>
          drain?.waitUntilIdle(DRAIN_LINGER_MS, signal),
        ),
      );
      return { is: 'done', result: null };
    });
  }

  /**
   * Processes an item until it is done. Returns it to the queue if the signal is aborted, and reports `unknown_source` if
   * this process does not serve the source.
   */
  async #processItem<T>(
    name: string,
    signal: AbortSignal,
    work: (watched: WatchedSource) => Promise<ItemEnd<T>>,
  ): Promise<ItemEnd<T>> {
    const watched = this.#sources.get(name);
    if (watched === undefined) return { is: 'unknown_source' };
    try {
      return await this.#track(work(watched));
    } catch (error) {
      if (signal.aborted) return { is: 'returned', afterMs: 0 };
      throw error;
    }
  }

  /** Runs `work` while the drain of the source handles the deliveries in `scope`. Starts the drain if it does not run. */
  async #whileDraining<T>(
    name: string,
    { app, inbox }: OpenApp,
    scope: DrainScope,
    work: (drain: SourceDrain | null) => Promise<T>,
  ): Promise<T> {
    const { clock, secrets } = this.#options;
    const watched = this.#sources.get(name);
    if (inbox === null || watched === undefined) return work(null);
    const parts = { ...watched, clock, secrets, app, inbox, queue: this.queue };
    const drain = this.#drains.get(name) ?? new SourceDrain(parts);
    this.#drains.set(name, drain);
    drain.addScope(scope);
    try {
      return await work(drain);
    } finally {
      const isLast = drain.removeScope(scope);
      if (isLast) this.#drains.delete(name);
      const endDrain = async (): Promise<void> => {
        if (isLast) await drain.close();
        // Deliveries that arrived for this scope while it ended would otherwise wait for the leader's periodic check.
        await drain.queueMissedDeliveries(this.#stopping.signal);
      };
      // The item is finished, so nobody waits for this. If it fails, that check queues the deliveries.
      this.#track(this.#withOpenSource(name, endDrain)).catch(() => undefined);
    }
  }
}

function unknownSource(name: string, known: readonly string[]): SyncError {
  return new SyncError('unknown_source', `the config of this process has no usable source in the schema "${name}"`, {
    recovery: 'skip',
    hint: `it has ${known.join(', ')}; give all processes on one database the same config`,
  });
}

/** Logs errors: while a server is unreachable, each statement fails with the same one. */
function errorLogger(log: Logger, clock: Clock): (error: unknown) => void {
  const countToLog = createCountToLog(clock);
  return (error) => {
    const count = countToLog(messageOf(error));
    if (count !== null) log.warn({ error, count }, `work was deferred: ${messageOf(error)}`);
  };
}
