import type { Logger } from 'pino';
import { openApp, type App } from '../../app.ts';
import type { Clock } from '../../model/clock.ts';
import type { GovernorFigures } from '../../queue/governor.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { databaseAt, openWarehouse, shownPlace } from '../../warehouse/databases.ts';
import { nameLost, restingState, type FileMark, type NameState } from '../../warehouse/name-state.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import type { SourceWatcher } from '../source-watcher.ts';
import type { LocalApps, OpenLocal } from './local-apps.ts';

interface RestingAppOptions {
  source: SourceSettings;
  log: Logger;
  watcher: SourceWatcher;
  clock: Clock;
  secrets: string[];
  apps: LocalApps;
  /** Reads what is to be known of the source while it is closed. Must not throw. */
  lastLook: () => Promise<void>;
}

/** Records that are read again one after the other need not acquire their resource each time. */
const OWNED_LINGER_MS = 1_000;

/**
 * A source that is open while something is done on it and for a short time after, and closed else: then it belongs to
 * nobody, and its files are only looked at from outside.
 */
export class RestingApp {
  readonly #options: RestingAppOptions;
  readonly #key: string;
  #app: App | null = null;
  #stage: 'open' | 'last look' | 'closing' | 'closed' = 'closed';
  #closed: Promise<void> = Promise.resolve();
  /** Of the file that was open last; null before that. */
  #known: string | null = null;
  #content: string | null = null;
  /** Counts what may have changed the stored state. */
  #changes = 0;
  #governor: GovernorFigures | null = null;
  #openingSince: number | null = null;
  readonly #underWay = new Set<Promise<unknown>>();
  /** Those that read through the open app. A reader of its own may wait until that is closed, so it must not wait for it. */
  readonly #throughApp = new Set<Promise<unknown>>();
  #turn: Promise<() => void> | null = null;
  #users = 0;

  constructor(options: RestingAppOptions) {
    this.#options = options;
    const { source, clock, apps } = options;
    this.#key = apps.keep(source.name, {
      openApp: () => this.#openApp(),
      openReader: () => this.#whileClosed(() => openWarehouse(source.warehouse, clock)),
    });
  }

  /** Null while the source is at rest. */
  get open(): App | null {
    return this.#app;
  }

  /** The rate that the service allows, as it was known last; null before the first work. */
  governor(): GovernorFigures | null {
    return this.#app?.governor.figures() ?? this.#governor;
  }

  /**
   * Stays the same while what is stored does; null while work may change it at any time. Somebody else's change shows by
   * the files.
   */
  version(): string | null {
    if (this.#stage === 'open') return null;
    if (this.#stage !== 'closed') return String(this.#changes);
    const content = this.#mark()?.content ?? null;
    if (content !== this.#content) {
      this.#content = content;
      this.#changes += 1;
    }
    return String(this.#changes);
  }

  /** When the opening that is in progress began, on the monotonic clock; null if there is none. */
  openingSince(): number | null {
    return this.#openingSince;
  }

  nameState(): NameState {
    return this.#app?.warehouse.nameState() ?? this.#restingState();
  }

  /** Bytes of the write-ahead log that was left while the source is closed. */
  leftLog(): number {
    return this.#app === null ? (this.#mark()?.logBytes ?? 0) : 0;
  }

  /** Runs work that may wait until others have begun theirs; several may run at a time. Throws what opening throws. */
  async useInTurn<T>(work: (app: App) => Promise<T>, signal: AbortSignal): Promise<T> {
    if (this.#app !== null || this.#users > 0) return this.use(work);
    this.#turn ??= this.#options.apps.turn(signal);
    const turn = this.#turn;
    try {
      await turn;
    } catch (error) {
      if (this.#turn === turn) this.#turn = null;
      if (signal.aborted) throw error;
      // It was given up by another one who waited for it.
      return this.useInTurn(work, signal);
    }
    return this.use(work);
  }

  /** Runs work at once. Throws what opening throws, and `warehouse_gone` while the file is not in its place. */
  async use<T>(work: (app: App) => Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      const open = await this.#options.apps.app(this.#key);
      try {
        return await work(open.value.app);
      } finally {
        await open.release();
      }
    } finally {
      this.#users -= 1;
      if (this.#users === 0) this.#endTurn();
      this.#options.apps.closeSurplus();
    }
  }

  /** Reads what is stored; keeps nothing open that was not. Throws what opening throws. */
  async read<T>(work: (warehouse: Warehouse) => Promise<T>): Promise<T> {
    if (this.#app !== null) return tracked(this.#throughApp, work(this.#app.warehouse));
    return tracked(this.#underWay, this.#readClosed(work));
  }

  /** Closes what is open, once nobody uses it any more. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.#underWay, ...this.#throughApp]);
    await this.#options.apps.forget(this.#key);
    await this.#closed;
  }

  async #readClosed<T>(work: (warehouse: Warehouse) => Promise<T>): Promise<T> {
    const reader = await this.#options.apps.reader(this.#key);
    try {
      return await work(reader.value);
    } finally {
      await reader.release();
      this.#known ??= this.#mark()?.identity ?? null;
    }
  }

  #openApp(): Promise<OpenLocal> {
    const { source, clock, log, secrets, watcher } = this.#options;
    return this.#whileClosed(async () => {
      const attempted: typeof watcher.attempted = (event) => watcher.attempted(event);
      const app = await openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
      this.#app = app;
      this.#stage = 'open';
      this.#known = this.#mark()?.identity ?? null;
      return { app, close: () => (this.#closed = this.#close(app)) };
    });
  }

  /** Opens after what was open before is closed, and only what was closed: not a file that has taken its name. */
  async #whileClosed<T>(open: () => Promise<T>): Promise<T> {
    await this.#closed.catch(() => undefined);
    const { is } = this.#restingState();
    if (is !== 'named') throw nameLost(shownPlace(this.#options.source.warehouse), is);
    this.#openingSince = this.#options.clock.monotonic();
    try {
      return await open();
    } finally {
      this.#openingSince = null;
    }
  }

  async #close(app: App): Promise<void> {
    this.#changes += 1;
    this.#stage = 'last look';
    const looked = this.#mark()?.content;
    await this.#options.lastLook();
    this.#governor = app.governor.figures();
    this.#stage = 'closing';
    this.#app = null;
    try {
      await Promise.allSettled(this.#throughApp);
      // What another process has written since that look is none of our own closing.
      if (this.#mark()?.content !== looked) this.#changes += 1;
      await app.close();
    } finally {
      this.#content = this.#mark()?.content ?? null;
      this.#stage = 'closed';
    }
  }

  #endTurn(): void {
    const turn = this.#turn;
    this.#turn = null;
    // Who still waits for it must not keep others from what they do next; a turn that was given up has ended.
    void turn?.then((end) => end()).catch(() => undefined);
  }

  #mark(): FileMark | null {
    return databaseAt(this.#options.source.warehouse).mark();
  }

  #restingState(): NameState {
    const mark = this.#mark();
    return mark === null ? { is: 'named', seen: '' } : restingState(this.#known, mark);
  }
}

async function tracked<T>(readings: Set<Promise<unknown>>, reading: Promise<T>): Promise<T> {
  readings.add(reading);
  try {
    return await reading;
  } finally {
    readings.delete(reading);
  }
}
