// Resources that several users share by name, such as the open database of a source: opened by the first use, and closed
// some time after the last one, because the next use may come soon.
import type { Clock } from './clock.ts';
import { sleepOrAbort } from './waiting.ts';

interface SharedResourceOptions<T> {
  open: (name: string) => Promise<T>;
  close: (value: T) => Promise<void>;
  clock: Clock;
  /** How long an unused resource stays open. */
  lingerMs: number;
}

/** A resource in use, until `release` is called. */
export interface Acquired<T> {
  readonly value: T;
  /** Ends the use. `now` closes the resource at once if this was the last use. A second call does nothing. */
  release(now?: boolean): Promise<void>;
}

interface SharedEntry<T> {
  opened: Promise<T>;
  /** Null until it is open. */
  value: T | null;
  users: number;
  /** Aborted to end the time for which the unused resource stays open; null while it is used. */
  lingering: AbortController | null;
}

export class SharedResources<T> {
  readonly #options: SharedResourceOptions<T>;
  /** By name; the most recently used one comes last. */
  readonly #entries = new Map<string, SharedEntry<T>>();
  readonly #closing = new AbortController();
  readonly #lingering = new Set<Promise<void>>();

  constructor(options: SharedResourceOptions<T>) {
    this.#options = options;
  }

  /** Rejects if the resource cannot be opened; the next call tries again. */
  async acquire(name: string): Promise<Acquired<T>> {
    const existing = this.#entries.get(name);
    const entry = existing ?? { opened: this.#options.open(name), value: null, users: 0, lingering: null };
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    entry.users += 1;
    entry.lingering?.abort();
    entry.lingering = null;
    try {
      const value = await entry.opened;
      entry.value = value;
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
    return this.#entries.get(name)?.value ?? null;
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
    const lingering = new AbortController();
    entry.lingering = lingering;
    await sleepOrAbort(clock, lingerMs, AbortSignal.any([this.#closing.signal, lingering.signal]));
    // Unless it was acquired meanwhile.
    if (entry.lingering === lingering) await this.#close(name, entry);
  }

  async #close(name: string, entry: SharedEntry<T>): Promise<void> {
    if (entry.users > 0 || this.#entries.get(name) !== entry) return;
    this.#entries.delete(name);
    entry.lingering?.abort();
    await this.#options.close(await entry.opened);
  }
}
