import type { App } from '../../app.ts';
import { SyncError } from '../../model/errors.ts';
import { WorkQueue } from '../work-items/work-queue.ts';
import { queueName, type ItemOf, type WorkEnd } from '../work-items/work-items.ts';
import { doWalk, failedWith, type WalkResult } from './walk-item.ts';
import { createOpenApps, type ClusterSource, type OpenApp, type OpenApps, type OpenAppsOptions } from './open-apps.ts';
import { SourceDrain, type DrainUser } from './source-drain.ts';

interface ClusterWorkOptions extends Omit<OpenAppsOptions, 'stopping' | 'sources'> {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** Walks under way at once. */
  atOnce: number;
  /** Called with errors that pass by themselves. */
  failed: (error: unknown) => void;
}

/** Drains mostly wait, for more deliveries or for the service. */
const DRAINS_AT_ONCE = 64;
const CONFIRMS_AT_ONCE = 2;
/** A drain stays this long for the next deliveries, so that a storm is one item and not many. */
const LINGER_MS = 10_000;
/** The queue is asked for drain items at most this often, even in a storm of deliveries. */
const WAKE_MS = 250;

/** A source as long as this process works on it with the same settings. */
interface JoinedSource extends ClusterSource {
  /** Aborted when it is left. */
  leaving: AbortController;
  uses: Set<Promise<unknown>>;
}

/** The work that this process does on the sources of one database, from as soon as the queue can be opened. */
export class ClusterWork {
  readonly queue: WorkQueue;
  readonly apps: OpenApps;
  readonly #options: ClusterWorkOptions;
  /** By their names in the queue. */
  readonly #joined = new Map<string, JoinedSource>();
  readonly #drains = new Map<string, SourceDrain>();
  readonly #stopping = new AbortController();
  #wokenAt = Number.NEGATIVE_INFINITY;

  constructor(options: ClusterWorkOptions) {
    const { address, clock, failed, secrets, atOnce } = options;
    this.#options = options;
    this.queue = new WorkQueue({ address, clock, failed });
    this.apps = createOpenApps({ sources: this.#joined, clock, secrets, stopping: this.#stopping.signal });
    this.queue.work('walk', atOnce, (item, signal) => this.#walk(item, signal));
    this.queue.work('drain', DRAINS_AT_ONCE, (item, signal) => this.#drain(item, signal));
    this.queue.work('settle', CONFIRMS_AT_ONCE, (item, signal) => this.#confirm(item, signal));
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
    const joined = this.#joined.get(name);
    if (joined === undefined) return;
    this.#joined.delete(name);
    joined.leaving.abort(new SyncError('interrupted', 'the settings of the source have changed', { recovery: 'stop' }));
    while (joined.uses.size > 0) await Promise.allSettled(joined.uses);
    await this.apps.end(name);
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
    await this.apps.use(source, ({ app }) => app.retry(now)).catch(() => undefined);
    this.lookAgain(source);
  }

  /** Works on deliveries that were left alone, as far as this process works on deliveries of the source. */
  lookAgain(source: string): void {
    this.#drains.get(source)?.retry();
  }

  /** Runs work that no item asks for, with a source open. It must end when the source's keeper is stopped. */
  async use<T>(name: string, work: (app: App) => Promise<T>): Promise<T> {
    const joined = this.#joined.get(name);
    const done = this.apps.use(name, ({ app }) => work(app));
    return joined === undefined ? done : used(joined, done);
  }

  /** Gives back the items under way, and closes. */
  async stop(): Promise<void> {
    this.#stopping.abort(new SyncError('interrupted', 'the process is ending', { recovery: 'stop' }));
    await this.queue.close();
    for (const { uses } of this.#joined.values()) while (uses.size > 0) await Promise.allSettled(uses);
    await this.apps.close();
  }

  #walk(item: ItemOf<'walk'>, signal: AbortSignal): Promise<WorkEnd<WalkResult>> {
    const { source, resource } = item;
    const { clock, secrets } = this.#options;
    return this.#whileJoined(source, signal, async ({ watcher }, until) => {
      try {
        return await this.apps.use(source, (open) =>
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
      await this.apps.use(source, (open) =>
        this.#whileDraining(source, open, { all: true }, async (drain) => drain?.quiet(LINGER_MS, until)),
      );
      return { is: 'done', result: null };
    });
  }

  #confirm({ source, resource }: ItemOf<'settle'>, signal: AbortSignal): Promise<WorkEnd<null>> {
    return this.#whileJoined(source, signal, async (_, until) => {
      try {
        await this.apps.use(source, async ({ app }) => {
          await app.eraseForgotten(resource, until);
          await app.confirmReleased(resource, until);
        });
      } catch (error) {
        // The walk that owns the resource confirms them as well.
        if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      }
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
    used(joined, this.apps.use(name, end)).catch(() => undefined);
  }
}

/** Counts work as a use of the source for as long as it goes on. */
function used<T>({ uses }: JoinedSource, work: Promise<T>): Promise<T> {
  const use = work.finally(() => uses.delete(use));
  uses.add(use);
  return use;
}
