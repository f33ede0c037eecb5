import type { Clock } from './clock.ts';
import { sleepOrAbort } from './waiting.ts';

export interface SharedResourceOptions<T> {
  open: (name: string) => Promise<T>;
  close: (value: T) => Promise<void>;
  /** Keeps a resource open for `ms` after its last release, because it may be acquired again soon. */
  linger?: { clock: Clock; ms: number };
}

/** One use of a shared resource. */
export interface Acquired<T> {
  readonly value: T;
  /** Closes the resource if this was its last user; `now` skips the lingering. A second call does nothing. */
  release(now?: boolean): Promise<void>;
}

interface Entry<T> {
  opened: Promise<T>;
  /** Null until it is open. */
  value: { of: T } | null;
  users: number;
  /** Grows with every acquisition, so that one which came and went while another lingered is noticed. */
  acquisitions: number;
  /** Ends the lingering under way: its timer would hold what is closed before its time. */
  lingering: AbortController | null;
}

/**
 * Resources by name, counted by reference: the first `acquire` opens one, everybody else shares it, and the last
 * release closes it. An opening that fails is forgotten, so that the next `acquire` tries again.
 */
export class SharedResources<T> {
  readonly #options: SharedResourceOptions<T>;
  /** The most recently used last. */
  readonly #entries = new Map<string, Entry<T>>();
  readonly #closing = new AbortController();
  readonly #lingering = new Set<Promise<void>>();

  constructor(options: SharedResourceOptions<T>) {
    this.#options = options;
  }

  /** Rejects if the resource cannot be opened. */
  async acquire(name: string): Promise<Acquired<T>> {
    const entry = this.#entries.get(name) ?? this.#open(name);
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    entry.users += 1;
    entry.acquisitions += 1;
    entry.lingering?.abort();
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

  /** The resource if it is open, used or lingering; else null. Does not count as a use. */
  peek(name: string): T | null {
    return this.#entries.get(name)?.value?.of ?? null;
  }

  /** Closes what lingers, except for the `most` that were used last. */
  async closeIdle(most = 0): Promise<void> {
    const idle = [...this.#entries].filter(([, { users, value }]) => users === 0 && value !== null);
    await Promise.all(idle.slice(0, Math.max(0, idle.length - most)).map(([name, entry]) => this.#close(name, entry)));
  }

  /** Closes one if it lingers. */
  async end(name: string): Promise<void> {
    const entry = this.#entries.get(name);
    if (entry !== undefined && entry.value !== null) await this.#close(name, entry);
  }

  /** Ends all lingering. Nothing is left open once every user has released what it acquired. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#lingering);
  }

  #open(name: string): Entry<T> {
    return { opened: this.#options.open(name), value: null, users: 0, acquisitions: 0, lingering: null };
  }

  async #release(name: string, entry: Entry<T>, now: boolean): Promise<void> {
    entry.users -= 1;
    if (entry.users > 0) return;
    const { linger } = this.#options;
    if (now || linger === undefined || linger.ms <= 0 || this.#closing.signal.aborted) return this.#close(name, entry);
    const lingering = this.#closeLater(name, entry, linger)
      .catch(() => undefined)
      .finally(() => this.#lingering.delete(lingering));
    this.#lingering.add(lingering);
  }

  async #closeLater(name: string, entry: Entry<T>, { clock, ms }: { clock: Clock; ms: number }): Promise<void> {
    const { acquisitions } = entry;
    const ended = new AbortController();
    entry.lingering = ended;
    await sleepOrAbort(clock, ms, AbortSignal.any([this.#closing.signal, ended.signal]));
    if (entry.acquisitions === acquisitions) await this.#close(name, entry);
  }

  async #close(name: string, entry: Entry<T>): Promise<void> {
    if (entry.users > 0 || this.#entries.get(name) !== entry) return;
    this.#entries.delete(name);
    entry.lingering?.abort();
    await this.#options.close(await entry.opened);
  }
}
