/** What a cache in front of a service does. */
export interface CacheHabits {
  /** How long it keeps an answer, in milliseconds; 0: there is no cache. */
  ms: number;
  /** What it says of an answer that it has kept. */
  tells: 'nothing' | 'age' | 'age and lifetime';
  /** Whether it lets requests through that say `no-cache`. */
  isHeeding: boolean;
}

interface Answer {
  status?: number;
  headers?: Record<string, string | string[]>;
}

/** An answer, and when the service made it. */
export type Kept<T> = T & { madeAt: number };

/** A cache that keeps successes by what was asked for, as those in front of many services do. */
export class AddressCache<T extends Answer> {
  readonly #habits: CacheHabits;
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept<T>>();

  /** `now`: in epoch milliseconds. */
  constructor(habits: CacheHabits, now: () => number) {
    this.#habits = habits;
    this.#now = now;
  }

  /** What it answers; `make` asks the service. */
  answer(asked: { key: string; cacheControl: string | undefined }, make: () => T): Kept<T> {
    const { ms, tells, isHeeding } = this.#habits;
    const kept = this.#kept.get(asked.key);
    const ageMs = this.#now() - (kept?.madeAt ?? -Infinity);
    const isRefused = isHeeding && /no-cache|no-store/.test(asked.cacheControl ?? '');
    if (kept === undefined || ageMs >= ms || isRefused) {
      const fresh = { ...make(), madeAt: this.#now() };
      if ((fresh.status ?? 200) === 200) this.#kept.set(asked.key, fresh);
      return fresh;
    }
    const age = tells === 'nothing' ? {} : { age: String(Math.floor(ageMs / 1_000)) };
    const lifetime = tells === 'age and lifetime' ? { 'cache-control': `public, max-age=${ms / 1_000}` } : {};
    return { ...kept, headers: { ...kept.headers, ...age, ...lifetime } };
  }
}
