import type { Clock } from '../../model/clock.ts';
import { Coalescer, type CoalescerOptions, type Work } from './coalesce.ts';
import { waitAfter, type DrainFault } from './faults.ts';
import type { Request } from './ticket.ts';

export interface PacedWorkOptions<Outcome> extends CoalescerOptions {
  clock: Clock;
  random: () => number;
  /** Aborted when the drain stops: nothing new begins, and a failure after that counts for nothing. */
  signal: AbortSignal;
  /** Requests of one resource with the same key are served by the same work. */
  keyOf: (request: Request) => string;
  /** Does the work for `served`; it may take later ones out of `work.waiting` and put them in. */
  perform: (work: Work<Request>, served: Request[]) => Promise<Outcome>;
  faultOf: (error: unknown) => DrainFault;
  done: (served: readonly Request[], outcome: Outcome) => void;
  failed: (served: readonly Request[], fault: DrainFault) => void;
  /** Called once per work that has thrown. */
  threw: (work: Work<Request>, error: unknown) => void;
}

/** One kind of work: coalesced, spaced, bounded, and put off for a resource for which it cannot be done right now. */
export class PacedWork<Outcome> {
  readonly #options: PacedWorkOptions<Outcome>;
  readonly #coalescer: Coalescer<Request>;
  readonly #pauses: ResourcePauses;
  readonly #running = new Set<Promise<void>>();
  /** Times of the alarms that are set, on the monotonic clock, the next one last. One that is not needed any more does no harm. */
  readonly #alarms: number[] = [];

  constructor(options: PacedWorkOptions<Outcome>) {
    this.#options = options;
    this.#coalescer = new Coalescer(options);
    this.#pauses = new ResourcePauses(options.random);
  }

  get underWay(): number {
    return this.#coalescer.underWay;
  }

  /** Takes a request; `pump` makes it begin. */
  add(request: Request): void {
    const { clock, keyOf, failed } = this.#options;
    const { resource } = request.target;
    const pause = this.#pauses.at(resource, clock.now());
    if (pause === null) this.#coalescer.add(resource, keyOf(request), request);
    else failed([request], pause);
  }

  /** Begins what may begin. */
  pump(): void {
    const { clock, signal, threw } = this.#options;
    for (;;) {
      const work = signal.aborted ? null : this.#coalescer.start(clock.monotonic());
      if (work === null) break;
      const run = this.#run(work)
        .catch((error: unknown) => threw(work, error))
        .finally(() => this.#running.delete(run));
      this.#running.add(run);
    }
    this.#setAlarm();
  }

  /** Leaves no resource alone any more. */
  retry(): void {
    this.#pauses.clearAll();
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  async #run(work: Work<Request>): Promise<void> {
    const { perform, done, clock } = this.#options;
    const served = work.waiting.splice(0);
    let end: () => void;
    try {
      const outcome = await perform(work, served);
      this.#pauses.clear(work.resource);
      end = () => done(served, outcome);
    } catch (error) {
      end = () => this.#fail(work, served, error);
    }
    this.#coalescer.end(work, clock.monotonic());
    try {
      end();
    } finally {
      this.pump();
    }
  }

  /** A passing fault of one record concerns all of its resource: the requests for them wait along with it. */
  #fail(work: Work<Request>, served: readonly Request[], error: unknown): void {
    const { signal, threw, failed, faultOf, clock } = this.#options;
    if (signal.aborted) return;
    const fault = faultOf(error);
    if (fault.kind === 'passing') {
      const pause = this.#pauses.note(work.resource, fault, clock.now());
      failed([...served, ...this.#coalescer.withdraw(work.resource)], pause);
    } else {
      failed(served, fault);
    }
    threw(work, error);
  }

  /** Sets none if an earlier one is set. */
  #setAlarm(): void {
    const { clock, signal } = this.#options;
    const at = signal.aborted ? null : this.#coalescer.nextAt(clock.monotonic());
    if (at === null || at >= (this.#alarms.at(-1) ?? Infinity)) return;
    this.#alarms.push(at);
    clock.sleep(at - clock.monotonic(), signal).then(
      () => this.#ring(),
      () => undefined,
    );
  }

  #ring(): void {
    this.#alarms.pop();
    this.pump();
  }
}

interface Pause {
  fault: DrainFault;
  /** Epoch milliseconds. */
  until: number;
  /** Pauses in a row without anything that worked between them. */
  failures: number;
}

/**
 * Resources that are left alone for a while, and why: a service or a warehouse that does not answer does not answer for
 * the next record either.
 */
class ResourcePauses {
  readonly #pauses = new Map<string, Pause>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Notes a passing fault; returns it with the time of the next attempt. Those that failed along with it lengthen nothing. */
  note(resource: string, fault: DrainFault, now: number): DrainFault {
    const before = this.#pauses.get(resource);
    const failures = (before?.failures ?? 0) + 1;
    const isKnown = before !== undefined && now < before.until && fault.until === null;
    const until = isKnown ? before.until : now + waitAfter(fault, failures, now, this.#random);
    if (!isKnown) this.#pauses.set(resource, { fault, until, failures });
    return { ...fault, until };
  }

  /** Called when something has worked. */
  clear(resource: string): void {
    this.#pauses.delete(resource);
  }

  clearAll(): void {
    this.#pauses.clear();
  }

  /** Returns why the resource is left alone at this moment, and until when; null if it is not. */
  at(resource: string, now: number): DrainFault | null {
    const pause = this.#pauses.get(resource);
    return pause === undefined || now >= pause.until ? null : { ...pause.fault, until: pause.until };
  }
}
