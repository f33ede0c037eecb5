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
  /** `rested`: it may begin at once, and is only remembered until its bucket is full. */
  state: 'ready' | 'under way' | 'resting' | 'rested';
  /** On the monotonic clock; for one that rests. */
  restsUntil: number;
  /** When its bucket is full again, if it does not begin before. */
  fullAt: number;
}

interface Lane<T> {
  entries: Map<string, Entry<T>>;
  /** In the order in which they were asked for. */
  ready: Set<Entry<T>>;
  underWay: number;
}

/**
 * Turns many requests for the same into little work: at once for the first, then spaced, however many come. Resources
 * take turns, and none takes all places. It keeps no time of its own: `now` is milliseconds on a monotonic clock. It
 * remembers what waits, what is under way, and what began within the last `burst * everyMs`.
 */
export class Coalescer<T> {
  readonly #options: CoalescerOptions;
  /** By resource; the one that was served last stands last. */
  readonly #lanes = new Map<string, Lane<T>>();
  /** In the order in which they are rested. */
  readonly #resting: Entry<T>[] = [];
  readonly #rested = new Set<Entry<T>>();
  #underWay = 0;

  constructor(options: CoalescerOptions) {
    this.#options = options;
  }

  get underWay(): number {
    return this.#underWay;
  }

  add(resource: string, key: string, request: T): void {
    const lane = this.#laneOf(resource);
    const entry = lane.entries.get(key) ?? newEntry<T>(resource, key);
    lane.entries.set(key, entry);
    entry.waiting.push(request);
    if (this.#rested.delete(entry)) entry.state = 'ready';
    if (entry.state === 'ready') lane.ready.add(entry);
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
    entry.fullAt = Math.max(entry.fullAt, now) + this.#options.everyMs;
    this.#lanes.delete(entry.resource);
    this.#lanes.set(entry.resource, lane);
    return entry;
  }

  end(work: Work<T>, now: number): void {
    const { everyMs, burst, restMs } = this.#options;
    const lane = this.#laneOf(work.resource);
    const entry = lane.entries.get(work.key);
    if (entry?.state !== 'under way') throw new Error(`${work.resource} ${work.key} was not under way`);
    lane.underWay -= 1;
    this.#underWay -= 1;
    entry.state = 'resting';
    entry.restsUntil = Math.max(now + restMs, entry.fullAt - (burst - 1) * everyMs);
    const before = this.#resting.findLastIndex(({ restsUntil }) => restsUntil <= entry.restsUntil);
    this.#resting.splice(before + 1, 0, entry);
  }

  /** Takes out all who wait for something of the resource. */
  withdraw(resource: string): T[] {
    const lane = this.#laneOf(resource);
    const withdrawn = [...lane.entries.values()].flatMap((entry) => entry.waiting.splice(0));
    for (const entry of lane.ready) this.#setRested(entry);
    lane.ready.clear();
    return withdrawn;
  }

  /** When it is to be looked at again, because something is rested or can be forgotten; null if nothing is. */
  nextAt(): number | null {
    const [[resting], [rested]] = [this.#resting, this.#rested];
    const next = Math.min(resting?.restsUntil ?? Infinity, rested?.fullAt ?? Infinity);
    return next === Infinity ? null : next;
  }

  #wakeRested(now: number): void {
    const stillResting = this.#resting.findIndex(({ restsUntil }) => restsUntil > now);
    const awake = this.#resting.splice(0, stillResting === -1 ? this.#resting.length : stillResting);
    for (const entry of awake) {
      if (entry.waiting.length === 0) this.#setRested(entry);
      else this.#setReady(entry);
    }
    for (const entry of this.#rested) {
      if (entry.fullAt > now) return;
      this.#rested.delete(entry);
      this.#laneOf(entry.resource).entries.delete(entry.key);
    }
  }

  #setReady(entry: Entry<T>): void {
    entry.state = 'ready';
    this.#laneOf(entry.resource).ready.add(entry);
  }

  #setRested(entry: Entry<T>): void {
    entry.state = 'rested';
    this.#rested.add(entry);
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

function newEntry<T>(resource: string, key: string): Entry<T> {
  return { resource, key, waiting: [], state: 'ready', restsUntil: 0, fullAt: Number.NEGATIVE_INFINITY };
}
