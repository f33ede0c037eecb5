import type { Clock } from '../../model/clock.ts';
import { waitAfter, type DrainFault } from './faults.ts';
import type { Request } from './ticket.ts';

/** Work on one record (or, with an empty key, on a resource as a whole), and the requests that wait for it. */
export interface Work {
  readonly resource: string;
  readonly key: string;
  /** Not yet served. They are taken out when the work starts; so may later ones be that it serves as well. */
  readonly waiting: Request[];
}

export interface PacedWorkOptions<Outcome> {
  /** How often the same may begin: a bucket of `burst` tokens, one per beginning, and a new one every `everyMs`. */
  everyMs: number;
  burst: number;
  /** Milliseconds between the end of some work and the next beginning of the same, even with tokens left. */
  restMs: number;
  /** Most under way at once, in all and for one resource. */
  atOnce: number;
  atOncePerResource: number;
  clock: Clock;
  random: () => number;
  /** Aborted when the drain stops: nothing new begins, and a failure after that counts for nothing. */
  signal: AbortSignal;
  /** Requests of one resource with the same key are served by the same work. */
  keyOf: (request: Request) => string;
  /** Does the work for `served`; it may take later ones out of `work.waiting` and put them in. */
  perform: (work: Work, served: Request[]) => Promise<Outcome>;
  faultOf: (error: unknown) => DrainFault;
  done: (served: readonly Request[], outcome: Outcome) => void;
  failed: (served: readonly Request[], fault: DrainFault) => void;
  /** Called once per work that has thrown. */
  threw: (work: Work, error: unknown) => void;
}

interface Entry extends Work {
  isUnderWay: boolean;
  /** When it may begin again, on the monotonic clock. */
  restsUntil: number;
  /** When its bucket is full again, if it does not begin before: it is remembered until then. */
  fullAt: number;
}

/** The work of one resource. */
interface Lane {
  /** By key; what ended last stands last. */
  entries: Map<string, Entry>;
  underWay: number;
  /**
   * Why it is left alone, and until when in epoch milliseconds: a service or a warehouse that does not answer does not
   * answer for the next record either. `failures` are those in a row without anything that worked between them.
   */
  pause: { fault: DrainFault; until: number; failures: number } | null;
}

/**
 * One kind of work. Many requests for the same make little work: at once for the first, then spaced, however many come.
 * Resources take turns, none takes all places, and one for which nothing can be done right now is left alone for a while.
 */
export class PacedWork<Outcome> {
  readonly #options: PacedWorkOptions<Outcome>;
  /** By resource; the one that was served last stands last. */
  readonly #lanes = new Map<string, Lane>();
  readonly #running = new Set<Promise<void>>();
  #underWay = 0;
  /** When `pump` is called again, on the monotonic clock. */
  #alarmAt = Infinity;

  constructor(options: PacedWorkOptions<Outcome>) {
    this.#options = options;
  }

  get underWay(): number {
    return this.#underWay;
  }

  /** Takes a request; `pump` makes it begin. */
  add(request: Request): void {
    const { clock, keyOf, failed } = this.#options;
    const { resource } = request.target;
    const lane: Lane = this.#lanes.get(resource) ?? { entries: new Map(), underWay: 0, pause: null };
    this.#lanes.set(resource, lane);
    const { entries, pause } = lane;
    if (pause !== null && clock.now() < pause.until) return failed([request], { ...pause.fault, until: pause.until });
    const key = keyOf(request);
    const rested = { isUnderWay: false, restsUntil: -Infinity, fullAt: -Infinity };
    const entry = entries.get(key) ?? { resource, key, waiting: [], ...rested };
    entries.set(key, entry);
    entry.waiting.push(request);
  }

  /** Begins what may begin. */
  pump(): void {
    const { signal, threw } = this.#options;
    while (!signal.aborted) {
      const next = this.#next();
      if (next === null) return this.#setAlarm();
      const { lane, entry } = next;
      const run = this.#run(lane, entry)
        .catch((error: unknown) => threw(entry, error))
        .finally(() => this.#running.delete(run));
      this.#running.add(run);
    }
  }

  /** Leaves no resource alone any more. */
  retry(): void {
    for (const lane of this.#lanes.values()) lane.pause = null;
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  /** What may begin: of the resource with the least under way, else that was served longest ago. */
  #next(): { lane: Lane; entry: Entry } | null {
    const { clock, atOnce, atOncePerResource } = this.#options;
    const now = clock.monotonic();
    let best: { lane: Lane; entry: Entry } | null = null;
    for (const lane of this.#underWay < atOnce ? this.#lanes.values() : []) {
      if (lane.underWay >= (best?.lane.underWay ?? atOncePerResource)) continue;
      const entry = lane.entries
        .values()
        .find(({ isUnderWay, waiting, restsUntil }) => !isUnderWay && waiting.length > 0 && restsUntil <= now);
      if (entry !== undefined) best = { lane, entry };
    }
    return best;
  }

  async #run(lane: Lane, entry: Entry): Promise<void> {
    const { perform, done } = this.#options;
    this.#begin(lane, entry);
    const served = entry.waiting.splice(0);
    let end: () => void;
    try {
      const outcome = await perform(entry, served);
      lane.pause = null;
      end = () => done(served, outcome);
    } catch (error) {
      end = () => this.#fail(lane, entry, served, error);
    }
    this.#end(lane, entry);
    try {
      end();
    } finally {
      this.pump();
    }
  }

  #begin(lane: Lane, entry: Entry): void {
    const { clock, everyMs } = this.#options;
    lane.underWay += 1;
    this.#underWay += 1;
    entry.isUnderWay = true;
    entry.fullAt = Math.max(entry.fullAt, clock.monotonic()) + everyMs;
    this.#lanes.delete(entry.resource);
    this.#lanes.set(entry.resource, lane);
  }

  #end(lane: Lane, entry: Entry): void {
    const { clock, everyMs, burst, restMs } = this.#options;
    lane.underWay -= 1;
    this.#underWay -= 1;
    entry.isUnderWay = false;
    entry.restsUntil = Math.max(clock.monotonic() + restMs, entry.fullAt - (burst - 1) * everyMs);
    lane.entries.delete(entry.key);
    lane.entries.set(entry.key, entry);
  }

  /** A passing fault of one record concerns all of its resource: the requests for them wait along with it. */
  #fail(lane: Lane, work: Work, served: readonly Request[], error: unknown): void {
    const { signal, threw, failed, faultOf } = this.#options;
    if (signal.aborted) return;
    const fault = faultOf(error);
    if (fault.kind === 'passing') {
      const until = this.#pause(lane, fault);
      const others = [...lane.entries.values()].flatMap(({ waiting }) => waiting.splice(0));
      failed([...served, ...others], { ...fault, until });
    } else {
      failed(served, fault);
    }
    threw(work, error);
  }

  /** Returns the time of the next attempt. Those that failed along with another one lengthen nothing. */
  #pause(lane: Lane, fault: DrainFault): number {
    const { clock, random } = this.#options;
    const now = clock.now();
    if (lane.pause !== null && now < lane.pause.until && fault.until === null) return lane.pause.until;
    const failures = (lane.pause?.failures ?? 0) + 1;
    const until = now + waitAfter(fault, failures, now, random);
    lane.pause = { fault, until, failures };
    return until;
  }

  /** For when something has rested. What has rested already and waits has no place, and begins when other work ends. */
  #setAlarm(): void {
    const { clock, signal } = this.#options;
    const now = clock.monotonic();
    let at = Infinity;
    for (const { entries } of this.#lanes.values()) {
      for (const [key, { isUnderWay, waiting, restsUntil, fullAt }] of entries) {
        if (isUnderWay) continue;
        if (waiting.length === 0 && fullAt <= now) entries.delete(key);
        const next = waiting.length > 0 ? restsUntil : fullAt;
        if (next > now) at = Math.min(at, next);
      }
    }
    if (at >= this.#alarmAt) return;
    this.#alarmAt = at;
    clock.sleep(at - now, signal).then(
      () => this.#ring(at),
      () => undefined,
    );
  }

  /** One that an earlier alarm has made needless does nothing. */
  #ring(at: number): void {
    if (this.#alarmAt !== at) return;
    this.#alarmAt = Infinity;
    this.pump();
  }
}
