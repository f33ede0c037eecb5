// Resources that several users share by name, such as open databases: opened once, and closed after the last use.
import type { Clock } from './clock.ts';
import { sleepOrAbort } from './waiting.ts';

interface SharedResourceOptions<T> {
  open: (name: string) => Promise<T>;
  close: (value: T) => Promise<void>;
  clock: Clock;
  /** An unused resource stays open for this time, because it may be acquired again soon. */
  lingerMs: number;
}

/** A resource in use, until `release` is called. */
export interface Acquired<T> {
  readonly value: T;
  /** Ends the use; the last user's release closes the resource, at once if `now`. A second call does nothing. */
  release(now?: boolean): Promise<void>;
}

interface SharedEntry<T> {
  opened: Promise<T>;
  /** Null until it is open. */
  value: { of: T } | null;
  users: number;
  /** Ends the wait of an unused resource; null while it is used. */
  lingering: AbortController | null;
}

/** Resources by name with reference counts: the first `acquire` opens one, the last release closes it. */
export class SharedResources<T> {
  readonly #options: SharedResourceOptions<T>;
  /** The most recently used one comes last. */
  readonly #entries = new Map<string, SharedEntry<T>>();
  readonly #closing = new AbortController();
  readonly #lingering = new Set<Promise<void>>();

  constructor(options: SharedResourceOptions<T>) {
    this.#options = options;
  }

  /** Rejects if the resource cannot be opened; the next call tries again. */
  async acquire(name: string): Promise<Acquired<T>> {
    const known = this.#entries.get(name);
    const entry = known ?? { opened: this.#options.open(name), value: null, users: 0, lingering: null };
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    entry.users += 1;
    entry.lingering?.abort();
    entry.lingering = null;
    try {
      const value = await entry.opened;
      entry.value = { of: value };
      let isReleased = false;
      const release = async (now = false): Promise<void> => {
        if (isReleased) return;
        isReleased = true;
        await this.#release(name, entry, now);
      };
      return { value, release };
    } catch (error) {
      if (this.#entries.get(name) === entry) this.#entries.delete(name);
      throw error;
    }
  }

  /** Returns the resource if it is open, else null. Does not count as a use. */
  peek(name: string): T | null {
    return this.#entries.get(name)?.value?.of ?? null;
  }

  /** Closes unused resources, except for the `max` that were used last. */
  async closeIdle(max: number): Promise<void> {
    const idle = [...this.#entries].filter(([, { users, value }]) => users === 0 && value !== null);
    await Promise.all(idle.slice(0, Math.max(0, idle.length - max)).map(([name, entry]) => this.#close(name, entry)));
  }

  /** Closes unused resources; the others close once their users release them. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#lingering);
  }

  async #release(name: string, entry: SharedEntry<T>, now: boolean): Promise<void> {
    entry.users -= 1;
    if (entry.users > 0) return;
    if (now || this.#options.lingerMs <= 0 || this.#closing.signal.aborted) return this.#close(name, entry);
    const lingering = this.#closeLater(name, entry)
      .catch(() => undefined)
      .finally(() => this.#lingering.delete(lingering));
    this.#lingering.add(lingering);
  }

  async #closeLater(name: string, entry: SharedEntry<T>): Promise<void> {
    const { clock, lingerMs } = this.#options;
    const ended = new AbortController();
    entry.lingering = ended;
    await sleepOrAbort(clock, lingerMs, AbortSignal.any([this.#closing.signal, ended.signal]));
    if (entry.lingering === ended) await this.#close(name, entry);
  }

  async #close(name: string, entry: SharedEntry<T>): Promise<void> {
    if (entry.users > 0 || this.#entries.get(name) !== entry) return;
    this.#entries.delete(name);
    entry.lingering?.abort();
    await this.#options.close(await entry.opened);
  }
}
