import PQueue from 'p-queue';
import type { App } from '../../app.ts';
import type { Clock } from '../../model/clock.ts';
import { SharedResources, type Acquired } from '../../model/shared-resources.ts';
import { unlessAborted, waitAtMost } from '../../model/waiting.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** A source that is open, shared by all who use it at a time. */
export interface OpenLocal {
  app: App;
  close(): Promise<void>;
}

/** How one source is opened. */
export interface LocalOpener {
  openApp(): Promise<OpenLocal>;
  /** For those who only read. */
  openReader(): Promise<Warehouse>;
}

/** A source stays open for so long after its last use, */
const LINGER_MS = 60_000;
/** as long as not so many others linger too. */
const MOST_IDLE = 6;
/** One look is made of several readings. */
const READ_LINGER_MS = 300;
const OPENING_AT_ONCE = 3;
/** Sources that are open only to be read. */
const READ_AT_ONCE = 6;
/** Sources that begin to be walked at the same time; one that takes longer lets the next one begin. */
const BEGINNING_AT_ONCE = 6;
const BEGINNING_MS = 20_000;

interface OpenReader {
  warehouse: Warehouse;
  /** Gives its place to the next one. */
  leave: () => void;
}

/** The sources that are open in this process, of all that it keeps alone: only those that something is done on. */
export class LocalApps {
  readonly #clock: Clock;
  readonly #openers = new Map<string, LocalOpener>();
  readonly #apps: SharedResources<OpenLocal>;
  readonly #readers: SharedResources<OpenReader>;
  readonly #opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  readonly #reading = new PQueue({ concurrency: READ_AT_ONCE });
  readonly #beginning = new PQueue({ concurrency: BEGINNING_AT_ONCE });
  #kept = 0;
  #surplus: Promise<void> = Promise.resolve();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#apps = new SharedResources({
      open: (key) => this.#open((opener) => opener.openApp(), key),
      close: (open) => open.close(),
      linger: { clock, ms: LINGER_MS },
    });
    this.#readers = new SharedResources({
      open: (key) => this.#openReader(key),
      close: ({ warehouse, leave }) => warehouse.close().finally(leave),
      linger: { clock, ms: READ_LINGER_MS },
    });
  }

  /** Returns the key by which the source is opened from now on. */
  keep(source: string, opener: LocalOpener): string {
    const key = `${source} ${(this.#kept += 1)}`;
    this.#openers.set(key, opener);
    return key;
  }

  app(key: string): Promise<Acquired<OpenLocal>> {
    return this.#apps.acquire(key);
  }

  async reader(key: string): Promise<Acquired<Warehouse>> {
    const acquired = await this.#readers.acquire(key);
    return { value: acquired.value.warehouse, release: () => acquired.release(this.#reading.size > 0) };
  }

  /** To be called after an app was released. Does not throw. */
  closeSurplus(): void {
    this.#surplus = this.#surplus.then(() => this.#apps.closeIdle(MOST_IDLE)).catch(() => undefined);
  }

  /** Closes the source's app, which nobody may use any more, and forgets the source. */
  async forget(key: string): Promise<void> {
    await Promise.all([this.#apps.end(key), this.#readers.end(key)]);
    this.#openers.delete(key);
  }

  /** Ends all lingering. Every source must have been forgotten. */
  async close(): Promise<void> {
    await this.#surplus;
    await Promise.all([this.#apps.close(), this.#readers.close()]);
  }

  /**
   * Waits for a turn to begin with a source that is not open. Returns what gives the turn back, which happens by itself
   * after a while. Throws the signal's reason.
   */
  async turn(signal: AbortSignal): Promise<() => void> {
    const hold = async (over: Promise<void>): Promise<void> => {
      if (!signal.aborted) await waitAtMost(this.#clock, BEGINNING_MS, over);
    };
    const { begun, leave } = enter(this.#beginning, hold);
    try {
      await unlessAborted(begun, signal);
    } catch (error) {
      leave();
      throw error;
    }
    return leave;
  }

  async #openReader(key: string): Promise<OpenReader> {
    const { begun, leave } = enter(this.#reading, (over) => over);
    // What only lingers makes room.
    if (this.#reading.size > 0) void this.#readers.closeIdle().catch(() => undefined);
    await begun;
    try {
      return { warehouse: await this.#open((opener) => opener.openReader(), key), leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  async #open<T>(open: (opener: LocalOpener) => Promise<T>, key: string): Promise<T> {
    const opener = this.#openers.get(key);
    if (opener === undefined) throw new Error(`${key} is not kept any more`);
    return this.#opening.add(() => open(opener));
  }
}

/** Takes a place in the queue, from `begun` on for as long as `hold` lasts; it is given what resolves with `leave`. */
function enter(
  queue: PQueue,
  hold: (over: Promise<void>) => Promise<void>,
): { begun: Promise<void>; leave: () => void } {
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  void queue.add(() => {
    begun.resolve();
    return hold(over.promise);
  });
  return { begun: begun.promise, leave: () => over.resolve() };
}
