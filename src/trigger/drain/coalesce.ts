/** Work on one record (or, with an empty key, on a resource as a whole), and the requests that wait for it. */
export interface Work<T> {
  readonly resource: string;
  readonly key: string;
  /** Not yet served. They are taken out when the work starts; so may later ones be that it serves as well. */
  readonly waiting: T[];
}

/** How often the same may begin: a bucket of `burst` tokens, one per beginning, and a new one every `everyMs`. */
export interface CoalescerOptions {
  everyMs: number;
  burst: number;
  /** Milliseconds between the end of some work and the next beginning of the same, even with tokens left. */
  restMs: number;
  /** Most under way at once, in all and for one resource. */
  atOnce: number;
  atOncePerResource: number;
}

interface Entry<T> extends Work<T> {
  isUnderWay: boolean;
  /** When it may begin again, on the monotonic clock. */
  restsUntil: number;
  /** When its bucket is full again, if it does not begin before: it is remembered until then. */
  fullAt: number;
}

interface Lane<T> {
  /** By key; what ended last stands last. */
  entries: Map<string, Entry<T>>;
  underWay: number;
}

/**
 * Turns many requests for the same into little work: at once for the first, then spaced, however many come. Resources
 * take turns, and none takes all places. It keeps no time of its own: `now` is milliseconds on a monotonic clock.
 */
export class Coalescer<T> {
  readonly #options: CoalescerOptions;
  /** By resource; the one that was served last stands last. */
  readonly #lanes = new Map<string, Lane<T>>();
  #underWay = 0;

  constructor(options: CoalescerOptions) {
    this.#options = options;
  }

  get underWay(): number {
    return this.#underWay;
  }

  add(resource: string, key: string, request: T): void {
    const lane = this.#lanes.get(resource) ?? { entries: new Map<string, Entry<T>>(), underWay: 0 };
    this.#lanes.set(resource, lane);
    const entry = lane.entries.get(key) ?? newEntry<T>(resource, key);
    lane.entries.set(key, entry);
    entry.waiting.push(request);
  }

  /** The next work that may begin, or null: of the resource with the least under way, else that was served longest ago. */
  start(now: number): Work<T> | null {
    let best: { lane: Lane<T>; entry: Entry<T> } | null = null;
    for (const lane of this.#underWay < this.#options.atOnce ? this.#lanes.values() : []) {
      if (lane.underWay >= (best?.lane.underWay ?? this.#options.atOncePerResource)) continue;
      const entry = lane.entries.values().find((each) => mayBegin(each, now));
      if (entry !== undefined) best = { lane, entry };
    }
    if (best === null) return null;
    const { lane, entry } = best;
    lane.underWay += 1;
    this.#underWay += 1;
    entry.isUnderWay = true;
    entry.fullAt = Math.max(entry.fullAt, now) + this.#options.everyMs;
    this.#lanes.delete(entry.resource);
    this.#lanes.set(entry.resource, lane);
    return entry;
  }

  /** Everything started must be ended. */
  end({ resource, key }: Work<T>, now: number): void {
    const { everyMs, burst, restMs } = this.#options;
    const lane = this.#lanes.get(resource);
    const entry = lane?.entries.get(key);
    if (lane === undefined || entry?.isUnderWay !== true) throw new Error(`${resource} ${key} was not under way`);
    lane.underWay -= 1;
    this.#underWay -= 1;
    entry.isUnderWay = false;
    entry.restsUntil = Math.max(now + restMs, entry.fullAt - (burst - 1) * everyMs);
    lane.entries.delete(key);
    lane.entries.set(key, entry);
  }

  /** Takes out all who wait for something of the resource. */
  withdraw(resource: string): T[] {
    return [...(this.#lanes.get(resource)?.entries.values() ?? [])].flatMap(({ waiting }) => waiting.splice(0));
  }

  /** When `start` is to be called again because something has rested or can be forgotten; null if nothing does. */
  nextAt(now: number): number | null {
    let next = Infinity;
    for (const { entries } of this.#lanes.values()) {
      for (const [key, { isUnderWay, waiting, restsUntil, fullAt }] of entries) {
        if (isUnderWay) continue;
        if (waiting.length === 0 && fullAt <= now) entries.delete(key);
        const at = waiting.length > 0 ? restsUntil : fullAt;
        // What has rested and waits has no place, and begins when other work ends.
        if (at > now) next = Math.min(next, at);
      }
    }
    return next === Infinity ? null : next;
  }
}

function mayBegin<T>({ isUnderWay, waiting, restsUntil }: Entry<T>, now: number): boolean {
  return !isUnderWay && waiting.length > 0 && restsUntil <= now;
}

function newEntry<T>(resource: string, key: string): Entry<T> {
  return { resource, key, waiting: [], isUnderWay: false, restsUntil: -Infinity, fullAt: -Infinity };
}
