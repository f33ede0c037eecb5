import type { Clock } from '../../model/clock.ts';
import type { Ticket } from './ticket.ts';

export interface LeftOptions {
  clock: Clock;
  /** Aborted when the drain stops: then the next process looks. */
  signal: AbortSignal;
  /** Takes them back, to be looked for in the inbox again. */
  letGo: (tickets: readonly Ticket[]) => void;
}

/** Deliveries in hand that another process works on, by the moment at which they are looked at again. */
export class LeftTickets {
  readonly #options: LeftOptions;
  readonly #byMoment = new Map<number, Ticket[]>();

  constructor(options: LeftOptions) {
    this.#options = options;
  }

  get size(): number {
    return [...this.#byMoment.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** `at` in epoch milliseconds. */
  add(ticket: Ticket, at: number): void {
    const left = this.#byMoment.get(at) ?? [];
    left.push(ticket);
    if (left.length === 1) void this.#lookAgain(left, at);
  }

  async #lookAgain(left: Ticket[], at: number): Promise<void> {
    const { clock, signal, letGo } = this.#options;
    this.#byMoment.set(at, left);
    await clock.sleep(Math.max(0, at - clock.now()), signal).catch(() => undefined);
    this.#byMoment.delete(at);
    letGo(left);
  }
}
