import { waitAfter, type DrainFault } from './faults.ts';

interface Pause {
  fault: DrainFault;
  /** Epoch milliseconds. */
  until: number;
  /** Pauses in a row without anything that worked between them. */
  failures: number;
}

/**
 * Which resources are left alone for a while, and why: where the service or the warehouse does not answer, it does not
 * answer for the next record either.
 */
export class Pauses {
  readonly #pauses = new Map<string, Pause>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Notes a fault that passes, and says when it is looked for again. What failed along with it lengthens nothing. */
  note(resource: string, fault: DrainFault, now: number): DrainFault {
    const before = this.#pauses.get(resource);
    const failures = (before?.failures ?? 0) + 1;
    const isKnown = before !== undefined && now < before.until && fault.until === null;
    const until = isKnown ? before.until : now + waitAfter(fault, failures, now, this.#random);
    if (!isKnown) this.#pauses.set(resource, { fault, until, failures });
    return { ...fault, until };
  }

  /** Something worked. */
  clear(resource: string): void {
    this.#pauses.delete(resource);
  }

  /** Why the resource is left alone at this moment, and until when; null where it is not. */
  at(resource: string, now: number): DrainFault | null {
    const pause = this.#pauses.get(resource);
    return pause === undefined || now >= pause.until ? null : { ...pause.fault, until: pause.until };
  }
}
