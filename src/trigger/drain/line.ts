import type { Clock } from '../../model/clock.ts';
import { Coalescer, type CoalescerOptions, type Work } from './coalesce.ts';
import type { DrainFault } from './faults.ts';
import { Pauses } from './pauses.ts';
import type { Request } from './ticket.ts';

export interface LineOptions<Outcome> extends CoalescerOptions {
  clock: Clock;
  random: () => number;
  /** Aborted when the drain stops: nothing new begins, and what fails then is not held against anybody. */
  signal: AbortSignal;
  /** What a request has to share with others to be served by the same work. */
  keyOf: (request: Request) => string;
  /** Does the work for `served`; it may take later ones out of `work.waiting` and put them in. */
  perform: (work: Work<Request>, served: Request[]) => Promise<Outcome>;
  faultOf: (error: unknown) => DrainFault;
  done: (served: readonly Request[], outcome: Outcome) => void;
  failed: (served: readonly Request[], fault: DrainFault) => void;
  /** Told what was thrown, once per work. */
  threw: (work: Work<Request>, error: unknown) => void;
}

/** One kind of work: coalesced, spaced, bounded, and put off for a resource for which it cannot be done right now. */
export class Line<Outcome> {
  readonly #options: LineOptions<Outcome>;
  readonly #coalescer: Coalescer<Request>;
  readonly #pauses: Pauses;
  readonly #running = new Set<Promise<void>>();
  /** When alarms go off on the monotonic clock, the next one last. One that is not needed any more does no harm. */
  readonly #alarms: number[] = [];

  constructor(options: LineOptions<Outcome>) {
    this.#options = options;
    this.#coalescer = new Coalescer(options);
    this.#pauses = new Pauses(options.random);
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

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  async #run(work: Work<Request>): Promise<void> {
    const served = work.waiting.splice(0);
    const end = await this.#performed(work, served);
    this.#coalescer.end(work, this.#options.clock.monotonic());
    try {
      end();
    } finally {
      this.pump();
    }
  }

  /** What is to be done once it is over. */
  async #performed(work: Work<Request>, served: Request[]): Promise<() => void> {
    try {
      const outcome = await this.#options.perform(work, served);
      this.#pauses.clear(work.resource);
      return () => this.#options.done(served, outcome);
    } catch (error) {
      return () => this.#fail(work, served, error);
    }
  }

  /** What keeps one record from being read may keep all of its resource: then those who wait for them wait longer. */
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

  /** None where an earlier one is set. */
  #setAlarm(): void {
    const { clock, signal } = this.#options;
    const at = signal.aborted ? null : this.#coalescer.nextAt();
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
