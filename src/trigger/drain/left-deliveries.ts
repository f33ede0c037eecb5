import type { Clock } from '../../model/clock.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import type { EventTarget } from './read-event.ts';
import type { Ticket } from './ticket.ts';

interface LeftDeliveriesOptions {
  clock: Clock;
  /** Aborted when the drain stops: then the next process looks. */
  signal: AbortSignal;
  /** Called when it is time to look for them in the inbox again. */
  release: (tickets: readonly Ticket[]) => void;
}

interface ServedPart {
  events: number;
  targets: ReadonlySet<string>;
}

/** Deliveries about more than one record are few; what is forgotten is only read once more. */
const MOST_REMEMBERED = 1_000;

/**
 * Deliveries that are left to another process, because it owns a resource of theirs. What this process has done of them
 * is remembered: else two processes, each the owner of one resource, would read the same records over and over.
 */
export class LeftDeliveries {
  readonly #options: LeftDeliveriesOptions;
  readonly #byMoment = new Map<number, Ticket[]>();
  readonly #served = new Map<number, ServedPart>();

  constructor(options: LeftDeliveriesOptions) {
    this.#options = options;
  }

  get size(): number {
    return [...this.#byMoment.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** Leaves a delivery until `at`, in epoch milliseconds. */
  add(ticket: Ticket, at: number): void {
    this.#remember(ticket);
    const left = this.#byMoment.get(at) ?? [];
    left.push(ticket);
    if (left.length === 1) void this.#lookAgain(left, at);
  }

  /** Has all of them looked for in the inbox again now. */
  releaseAll(): void {
    const all = [...this.#byMoment.values()];
    this.#byMoment.clear();
    for (const left of all) this.#options.release(left);
  }

  /** The targets of a delivery that are not served yet, and those that are. It may have come again since. */
  split({ seq, events }: { seq: number; events: number }, targets: readonly EventTarget[]) {
    const part = this.#served.get(seq);
    const isServed = (target: EventTarget): boolean => part?.events === events && part.targets.has(nameOf(target));
    return { open: targets.filter((target) => !isServed(target)), served: targets.filter(isServed) };
  }

  /** Called when a delivery is settled. */
  forget(seq: number): void {
    this.#served.delete(seq);
  }

  #remember({ seq, events, served }: Ticket): void {
    if (served.length === 0) return;
    this.#served.set(seq, { events, targets: new Set(served.map(nameOf)) });
    for (const [oldest] of this.#served) {
      if (this.#served.size <= MOST_REMEMBERED) return;
      this.#served.delete(oldest);
    }
  }

  async #lookAgain(left: Ticket[], at: number): Promise<void> {
    const { clock, signal, release } = this.#options;
    this.#byMoment.set(at, left);
    await sleepOrAbort(clock, Math.max(0, at - clock.now()), signal);
    // Unless all have been released meanwhile.
    if (this.#byMoment.get(at) !== left) return;
    this.#byMoment.delete(at);
    release(left);
  }
}

function nameOf({ resource, key, updated, isDelete }: EventTarget): string {
  return JSON.stringify([resource, key, updated, isDelete]);
}
