import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { openApp, type App } from '../../app.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import { inboxAddress, openInbox } from '../../warehouse/databases.ts';
import type { KeeperWatcher } from '../source-keeper.ts';

/** A source and what this process needs to work on it. */
export interface ClusterSource {
  source: SourceSettings;
  log: Logger;
  watcher: KeeperWatcher;
}

/** A source that is open; both are closed when nobody has used it for a while. */
export interface OpenApp {
  app: App;
  /** Null where no webhooks are received. */
  inbox: Inbox | null;
}

/** The sources of a process that work is done on just now: of hundreds, only these are open. */
export interface OpenApps {
  /** Runs `work` with a source open. Throws what opening throws, and `SyncError('unknown_source')`. */
  use<T>(source: string, work: (open: OpenApp) => Promise<T>): Promise<T>;
  /** The source as it is open now, else null. */
  at(source: string): App | null;
  /** Closes what is open. Nothing may be in use any more. */
  close(): Promise<void>;
}

export interface OpenAppsOptions {
  /** By their names in the queue. */
  sources: ReadonlyMap<string, ClusterSource>;
  clock: Clock;
  secrets: string[];
  /** Aborted when the process is to end: then nothing more is opened. */
  stopping: AbortSignal;
  /** Milliseconds for which a source stays open after its last use; a minute where absent. */
  restMs?: number;
}

const REST_MS = 60_000;
/** In a round of hundreds of sources, each is open for a moment only. */
const MOST_RESTING = 16;
/** Opening asks much at once: some at a time leave the others their connections. */
const OPENING_AT_ONCE = 3;
/** Records that are read again one after the other need not take their resource anew each time. */
const LINGER_MS = 1_000;

interface Entry {
  opened: Promise<OpenApp>;
  /** Once it is open. */
  open: OpenApp | null;
  users: number;
  /** Grows with every use. */
  uses: number;
  close(): Promise<void>;
}

/** Opens nothing by itself. */
export function createOpenApps(options: OpenAppsOptions): OpenApps {
  return new SourceApps(options);
}

class SourceApps implements OpenApps {
  readonly #options: OpenAppsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  readonly #closing = new AbortController();
  readonly #resting = new Set<Promise<void>>();

  constructor(options: OpenAppsOptions) {
    this.#options = options;
  }

  async use<T>(source: string, work: (open: OpenApp) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(source) ?? this.#begin(source);
    // Behind those that were used before.
    this.#entries.delete(source);
    this.#entries.set(source, entry);
    entry.users += 1;
    entry.uses += 1;
    try {
      entry.open = await entry.opened;
    } catch (error) {
      // Whoever comes next shall try anew.
      if (this.#entries.get(source) === entry) this.#entries.delete(source);
      throw error;
    }
    try {
      return await work(entry.open);
    } finally {
      entry.users -= 1;
      if (entry.users === 0) this.#restLater(source, entry);
      this.#closeSurplus();
    }
  }

  at(source: string): App | null {
    return this.#entries.get(source)?.open?.app ?? null;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#resting);
    await Promise.all(Array.from(this.#entries.values(), (entry) => entry.close()));
  }

  #begin(name: string): Entry {
    const worked = this.#options.sources.get(name);
    if (worked === undefined) throw unknownSource(name, [...this.#options.sources.keys()]);
    const stack = new AsyncDisposableStack();
    const opened = this.#opening.add(() => this.#open(worked, stack));
    const entry: Entry = { opened, open: null, users: 0, uses: 0, close: () => stack.disposeAsync() };
    return entry;
  }

  async #open({ source, log, watcher }: ClusterSource, stack: AsyncDisposableStack): Promise<OpenApp> {
    const { clock, secrets, stopping } = this.#options;
    try {
      stopping.throwIfAborted();
      const attempted: KeeperWatcher['attempted'] = (event) => watcher.attempted(event);
      const app = await openApp({ source, clock, log, secrets, attempted, lingerMs: LINGER_MS });
      stack.defer(() => app.close());
      const inbox = source.webhook === null ? null : await openInbox(inboxAddress(source.warehouse), clock);
      if (inbox !== null) stack.defer(() => inbox.close());
      return { app, inbox };
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  #restLater(source: string, entry: Entry): void {
    const rest = this.#rest(source, entry)
      .catch(() => undefined)
      .finally(() => this.#resting.delete(rest));
    this.#resting.add(rest);
  }

  async #rest(source: string, entry: Entry): Promise<void> {
    const { clock, restMs = REST_MS } = this.#options;
    const { uses } = entry;
    await clock.sleep(restMs, this.#closing.signal);
    if (entry.uses === uses) await this.#closeOne(source, entry);
  }

  /** Each one open costs memory and some questions now and then: those that rest longest are closed first. */
  #closeSurplus(): void {
    const resting = [...this.#entries].filter(([, { users, open }]) => users === 0 && open !== null);
    for (const [source, entry] of resting.slice(0, -MOST_RESTING)) {
      const closed = this.#closeOne(source, entry)
        .catch(() => undefined)
        .finally(() => this.#resting.delete(closed));
      this.#resting.add(closed);
    }
  }

  async #closeOne(source: string, entry: Entry): Promise<void> {
    if (this.#entries.get(source) !== entry) return;
    this.#entries.delete(source);
    await entry.close();
  }
}

function unknownSource(name: string, known: readonly string[]): SyncError {
  return new SyncError('unknown_source', `the config of this process has no usable source in the schema "${name}"`, {
    recovery: 'skip',
    hint: `it has ${known.join(', ')}; give all processes on one database the same config`,
  });
}
