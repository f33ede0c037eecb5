import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { type App, openApp } from '../app.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { SharedResources } from '../../model/shared-resources.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { inboxAddress, openInbox } from '../../database/databases.ts';
import type { Inbox } from '../../database/inbox.ts';
import type { Keeper } from '../keeper.ts';
import type { SourceWatcher } from '../source-watcher.ts';
import { type ItemOf, queueName, type WorkEnd } from '../work-items/work-items.ts';
import { WorkQueue } from '../work-items/work-queue.ts';
import { keepLead } from './lead.ts';
import { type DrainUser, SourceDrain } from './source-drain.ts';
import type { Control } from '../controls/control-request.ts';
import { takeControls } from './take-controls.ts';
import { doWalk, failedWith, type WalkResult } from './walk-item.ts';

/** A source and what this process needs to work on it. */
export interface ClusterSource {
  source: SourceSettings;
  log: Logger;
  watcher: SourceWatcher;
}

interface OpenApp {
  app: App;
  /** Null if no webhooks are received. */
  inbox: Inbox | null;
}

interface ClusterWorkOptions {
  clock: Clock;
  log: Logger;
  secrets: string[];
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** Walks under way at once. */
  atOnce?: number;
  control?: Control;
}

const WALKS_AT_ONCE = 8;

/** Drains mostly wait, for more deliveries or for the service. */
const DRAINS_AT_ONCE = 64;
/** A drain stays this long for the next deliveries, so that a storm is one item and not many. */
const LINGER_MS = 10_000;
/** The queue is asked for drain items at most this often, even in a storm of deliveries. */
const WAKE_MS = 250;
/** A source stays open for so long after its last use. */
const OPEN_MS = 60_000;
/** In a round of hundreds of sources, each is open for a moment only. */
const MOST_IDLE = 16;
const OPENING_AT_ONCE = 4;
/** Records that are read again one after the other need not acquire their resource each time. */
const OWNED_LINGER_MS = 1_000;

/** A source as long as this process works on it with the same settings. */
interface JoinedSource extends ClusterSource {
  /** Aborted when it is left. */
  leaving: AbortController;
  uses: Set<Promise<unknown>>;
}

/** The work that this process does on the sources of one database, from as soon as the queue can be opened. */
export class ClusterWork {
  readonly queue: WorkQueue;
  /** Opening takes many queries: some at a time leave the others their connections. */
  readonly opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  readonly #options: ClusterWorkOptions;
  /** Called with errors that pass by themselves. */
  readonly #failed: (error: unknown) => void;
  /** By their names in the queue. */
  readonly #joined = new Map<string, JoinedSource>();
  readonly #drains = new Map<string, SourceDrain>();
  readonly #keepers = new Map<string, Keeper>();
  /** What this process leads, by the last renewal. */
  #led: ReadonlySet<string> = new Set();
  /** Null until this process takes leads. */
  #lead: ReturnType<typeof keepLead> | null = null;
  readonly #controls: ReturnType<typeof takeControls>;
  /** The sources that are open just now: of hundreds, only those that this process works on. */
  readonly #apps: SharedResources<OpenApp & AsyncDisposable>;
  #surplus = Promise.resolve();
  readonly #stopping = new AbortController();
  #wokenAt = Number.NEGATIVE_INFINITY;

  constructor(options: ClusterWorkOptions) {
    const { address, clock, log, atOnce = WALKS_AT_ONCE, control } = options;
    this.#options = options;
    this.#failed = errorLogger(log, clock);
    const failed = this.#failed;
    this.queue = new WorkQueue({ address, clock, failed });
    this.#apps = new SharedResources({
      open: (name) => this.opening.add(() => this.#open(name)),
      close: async (open) => open[Symbol.asyncDispose](),
      clock,
      lingerMs: OPEN_MS,
    });
    this.#controls = takeControls({
      address,
      sources: () => this.names,
      clock,
      failed,
      heard: (source, { action }) => {
        if (action === 'retry') void this.retry(source, false);
      },
      leaderOf: (source) => {
        const keeper = this.#keepers.get(source);
        return control === undefined || keeper?.isLed !== true ? null : { name: keeper.name, control };
      },
    });
    this.queue.work('walk', atOnce, (item, signal) => this.#walk(item, signal));
    this.queue.work('drain', DRAINS_AT_ONCE, (item, signal) => this.#drain(item, signal));
  }

  get isEmpty(): boolean {
    return this.#joined.size === 0;
  }

  /** Works on a source from now on. */
  join(known: ClusterSource): void {
    const name = queueName(known.source.warehouse);
    this.#joined.set(name, { ...known, leaving: new AbortController(), uses: new Set() });
    this.queue.welcome(name);
  }

  /** Gives back what is under way on a source, and closes it. */
  async leave(name: string): Promise<void> {
    this.#keepers.delete(name);
    const joined = this.#joined.get(name);
    if (joined === undefined) return;
    this.#joined.delete(name);
    joined.leaving.abort(new SyncError('interrupted', 'the settings of the source have changed', { recovery: 'stop' }));
    while (joined.uses.size > 0) await Promise.allSettled(joined.uses);
    await this.#apps.end(name);
  }

  /** Tells a source's keeper whether this process leads the source. */
  keep(name: string, keeper: Keeper): void {
    this.#keepers.set(name, keeper);
    keeper.lead(this.#led.has(name));
  }

  /** Takes the lead of those sources that have a keeper here and are not led by another process. */
  lead(): void {
    const { address, clock } = this.#options;
    const leads = (led: ReadonlySet<string>): void => {
      this.#led = led;
      this.#keepers.forEach((keeper, name) => keeper.lead(led.has(name)));
    };
    const sources = (): string[] => [...this.#keepers.keys()];
    this.#lead ??= keepLead({ address, sources, clock, failed: this.#failed, leads });
  }

  /** Called when this process has stored deliveries of a source. */
  wake(source: string): void {
    const drain = this.#drains.get(source);
    drain?.wake();
    const now = this.#options.clock.monotonic();
    if (drain?.worksForAll === true || now - this.#wokenAt < WAKE_MS) return;
    this.#wokenAt = now;
    this.queue.wake('drain');
  }

  /** The sources that this process works on, by their names in the queue. */
  get names(): string[] {
    return [...this.#joined.keys()];
  }

  /** Forgets what was refused of a source, in this process; `now` forgets stated waits, which all processes share. */
  async retry(source: string, now: boolean): Promise<void> {
    await this.#use(source, ({ app }) => app.retry(now)).catch(() => undefined);
    this.lookAgain(source);
  }

  /** Works on deliveries that were left alone, as far as this process works on deliveries of the source. */
  lookAgain(source: string): void {
    this.#drains.get(source)?.retry();
  }

  /** The source if it is open now, else null. */
  peek(source: string): App | null {
    return this.#apps.peek(source)?.app ?? null;
  }

  /** Runs work that no item asks for, with a source open. It must end when the source's keeper is stopped. */
  async use<T>(name: string, work: (app: App) => Promise<T>): Promise<T> {
    const joined = this.#joined.get(name);
    const done = this.#use(name, ({ app }) => work(app));
    return joined === undefined ? done : used(joined, done);
  }

  /** Gives back the items under way and the leads, and closes. */
  async stop(): Promise<void> {
    await Promise.all([this.#stopWork(), this.#lead?.stop(), this.#controls.stop()]);
  }

  async #stopWork(): Promise<void> {
    this.#stopping.abort(new SyncError('interrupted', 'the process is ending', { recovery: 'stop' }));
    await this.queue.close();
    for (const { uses } of this.#joined.values()) while (uses.size > 0) await Promise.allSettled(uses);
    await this.#surplus;
    await this.#apps.close();
  }

  /** Runs `work` with a source open. Throws what opening throws, and `SyncError('unknown_source')`. */
  async #use<T>(source: string, work: (open: OpenApp) => Promise<T>): Promise<T> {
    const acquired = await this.#apps.acquire(source);
    try {
      return await work(acquired.value);
    } finally {
      await acquired.release();
      // Not awaited: whoever used this source does not wait for others to be closed.
      this.#surplus = this.#surplus.then(() => this.#apps.closeIdle(MOST_IDLE)).catch(() => undefined);
    }
  }

  async #open(name: string): Promise<OpenApp & AsyncDisposable> {
    const { clock, secrets } = this.#options;
    const known = this.#joined.get(name);
    if (known === undefined) throw unknownSource(name, this.names);
    const { source, log, watcher } = known;
    await using opened = new AsyncDisposableStack();
    this.#stopping.signal.throwIfAborted();
    const attempted: SourceWatcher['attempted'] = (event) => watcher.attempted(event);
    const app = await openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
    opened.defer(() => app.close());
    const inbox = source.webhook === null ? null : await openInbox(inboxAddress(source.warehouse), clock);
    if (inbox !== null) opened.defer(() => inbox.close());
    const stack = opened.move();
    return { app, inbox, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  }

  #walk(item: ItemOf<'walk'>, signal: AbortSignal): Promise<WorkEnd<WalkResult>> {
    const { source, resource } = item;
    const { clock, secrets } = this.#options;
    return this.#whileJoined(source, signal, async ({ watcher }, until) => {
      try {
        return await this.#use(source, (open) =>
          this.#whileDraining(source, open, { resource }, () =>
            doWalk({ app: open.app, clock, watcher, secrets }, item, until),
          ),
        );
      } catch (error) {
        if (until.aborted) throw error;
        return { is: 'done', result: failedWith(error, secrets) };
      }
    });
  }

  #drain({ source }: ItemOf<'drain'>, signal: AbortSignal): Promise<WorkEnd<null>> {
    return this.#whileJoined(source, signal, async (_, until) => {
      await this.#use(source, (open) =>
        this.#whileDraining(source, open, { all: true }, async (drain) => drain?.quiet(LINGER_MS, until)),
      );
      return { is: 'done', result: null };
    });
  }

  /** Works on an item until it is done, or goes back because the signal is aborted or the source is left. */
  async #whileJoined<T>(
    name: string,
    signal: AbortSignal,
    work: (joined: JoinedSource, until: AbortSignal) => Promise<WorkEnd<T>>,
  ): Promise<WorkEnd<T>> {
    const joined = this.#joined.get(name);
    if (joined === undefined) return { is: 'foreign' };
    const until = AbortSignal.any([signal, joined.leaving.signal]);
    try {
      return await used(joined, work(joined, until));
    } catch (error) {
      if (until.aborted) return { is: 'back', afterMs: 0 };
      throw error;
    }
  }

  /** Runs `work` as a user of the source's drain, which runs as long as it has users. */
  async #whileDraining<T>(
    name: string,
    { app, inbox }: OpenApp,
    user: DrainUser,
    work: (drain: SourceDrain | null) => Promise<T>,
  ): Promise<T> {
    const { clock, secrets } = this.#options;
    const known = this.#joined.get(name);
    if (inbox === null || known === undefined) return work(null);
    const drain =
      this.#drains.get(name) ?? new SourceDrain({ ...known, clock, secrets, app, inbox, queue: this.queue });
    this.#drains.set(name, drain);
    drain.enter(user);
    try {
      return await work(drain);
    } finally {
      const isLast = drain.leave(user);
      if (isLast) this.#drains.delete(name);
      // Not awaited: the item is done, however long the drain still reads other records.
      this.#endDrain(name, drain, known, isLast);
    }
  }

  #endDrain(name: string, drain: SourceDrain, joined: JoinedSource, isLast: boolean): void {
    const until = AbortSignal.any([this.#stopping.signal, joined.leaving.signal]);
    const end = async (): Promise<void> => {
      if (isLast) await drain.close();
      await drain.lookAfter(until);
    };
    // The leader's upkeep finds what this misses.
    used(joined, this.#use(name, end)).catch(() => undefined);
  }
}

/** Counts work as a use of the source for as long as it goes on. */
function used<T>({ uses }: JoinedSource, work: Promise<T>): Promise<T> {
  const use = work.finally(() => uses.delete(use));
  uses.add(use);
  return use;
}

function unknownSource(name: string, known: readonly string[]): SyncError {
  return new SyncError('unknown_source', `the config of this process has no usable source in the schema "${name}"`, {
    recovery: 'skip',
    hint: `it has ${known.join(', ')}; give all processes on one database the same config`,
  });
}

/** The same error is logged at most this often. */
const TELL_MS = 10_000;

/** Logs an error; the same one, however often it comes, is one line now and then. */
function errorLogger(log: Logger, clock: Clock): (error: unknown) => void {
  const toldAt = new Map<string, number>();
  return (error) => {
    const message = messageOf(error);
    const now = clock.monotonic();
    if (now - (toldAt.get(message) ?? Number.NEGATIVE_INFINITY) < TELL_MS) return;
    if (toldAt.size > 100) toldAt.clear();
    toldAt.set(message, now);
    log.warn({ error }, `work was put off: ${message}`);
  };
}
