/** Work on one record (or, with an empty key, on a resource as a whole), and those who wait for it. */
export interface Work<T> {
  readonly resource: string;
  readonly key: string;
  /** Not yet served. Whoever starts the work takes them out, and so may who finds that it serves later ones as well. */
  readonly waiting: T[];
}

export interface CoalescerOptions {
  /** Milliseconds between the end of some work and the next beginning of the same. */
  spacingMs: number;
  /** Most under way at once, in all and for one resource. */
  atOnce: number;
  atOncePerResource: number;
}

interface Entry<T> extends Work<T> {
  state: 'ready' | 'under way' | 'resting';
  /** On the monotonic clock; for one that rests. */
  restsUntil: number;
}

interface Lane<T> {
  entries: Map<string, Entry<T>>;
  /** In the order in which they were asked for. */
  ready: Set<Entry<T>>;
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
  /** In the order in which they are rested. */
  readonly #resting = new Set<Entry<T>>();
  #underWay = 0;

  constructor(options: CoalescerOptions) {
    this.#options = options;
  }

  get underWay(): number {
    return this.#underWay;
  }

  add(resource: string, key: string, request: T): void {
    const lane = this.#laneOf(resource);
    const entry = lane.entries.get(key) ?? { resource, key, waiting: [], state: 'ready', restsUntil: 0 };
    lane.entries.set(key, entry);
    if (entry.state === 'ready') lane.ready.add(entry);
    entry.waiting.push(request);
  }

  /** The next work that may begin, or null. Everything started must be ended. */
  start(now: number): Work<T> | null {
    this.#wakeRested(now);
    const lane = this.#underWay < this.#options.atOnce ? this.#nextLane() : null;
    const [entry] = lane?.ready ?? [];
    if (lane === null || entry === undefined) return null;
    lane.ready.delete(entry);
    lane.underWay += 1;
    this.#underWay += 1;
    entry.state = 'under way';
    this.#lanes.delete(entry.resource);
    this.#lanes.set(entry.resource, lane);
    return entry;
  }

  end(work: Work<T>, now: number): void {
    const lane = this.#laneOf(work.resource);
    const entry = lane.entries.get(work.key);
    if (entry?.state !== 'under way') throw new Error(`${work.resource} ${work.key} was not under way`);
    lane.underWay -= 1;
    this.#underWay -= 1;
    entry.state = 'resting';
    entry.restsUntil = now + this.#options.spacingMs;
    this.#resting.add(entry);
  }

  /** Takes out all who wait for something of the resource. */
  withdraw(resource: string): T[] {
    const lane = this.#laneOf(resource);
    const withdrawn = [...lane.entries.values()].flatMap((entry) => entry.waiting.splice(0));
    for (const { key } of lane.ready) lane.entries.delete(key);
    lane.ready.clear();
    return withdrawn;
  }

  /** When something that rests is to be looked at again; null where nothing does. */
  nextAt(): number | null {
    const [first] = this.#resting;
    return first?.restsUntil ?? null;
  }

  #wakeRested(now: number): void {
    for (const entry of this.#resting) {
      if (entry.restsUntil > now) return;
      this.#resting.delete(entry);
      const lane = this.#laneOf(entry.resource);
      entry.state = 'ready';
      if (entry.waiting.length === 0) lane.entries.delete(entry.key);
      else lane.ready.add(entry);
    }
  }

  /** The one with the least under way; of several the one that was served longest ago. */
  #nextLane(): Lane<T> | null {
    let best: Lane<T> | null = null;
    for (const lane of this.#lanes.values()) {
      if (lane.ready.size === 0 || lane.underWay >= this.#options.atOncePerResource) continue;
      if (best === null || lane.underWay < best.underWay) best = lane;
    }
    return best;
  }

  #laneOf(resource: string): Lane<T> {
    const lane = this.#lanes.get(resource) ?? { entries: new Map(), ready: new Set(), underWay: 0 };
    this.#lanes.set(resource, lane);
    return lane;
  }
}
