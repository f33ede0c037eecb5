import type { EventTarget } from './events.ts';
import type { Ticket } from './ticket.ts';

interface Part {
  events: number;
  served: ReadonlySet<string>;
}

/** Deliveries about more than one record are few; what is forgotten is only read once more. */
const MOST = 1_000;

/**
 * What this process has done of deliveries that it had to leave, because the rest of them is another's. Else two
 * processes, each the owner of one of their resources, would read the same records over and over.
 */
export class PartlyServed {
  readonly #parts = new Map<number, Part>();

  remember({ seq, events, served }: Ticket): void {
    if (served.length === 0) return;
    this.#parts.set(seq, { events, served: new Set(served.map(nameOf)) });
    for (const [oldest] of this.#parts) {
      if (this.#parts.size <= MOST) return;
      this.#parts.delete(oldest);
    }
  }

  /** Those targets of a delivery that are not served yet, and those that are. It may have come again since. */
  split({ seq, events }: { seq: number; events: number }, targets: readonly EventTarget[]) {
    const part = this.#parts.get(seq);
    const isServed = (target: EventTarget): boolean => part?.events === events && part.served.has(nameOf(target));
    return { open: targets.filter((target) => !isServed(target)), served: targets.filter(isServed) };
  }

  forget(seq: number): void {
    this.#parts.delete(seq);
  }
}

function nameOf({ resource, key, updated, isDelete }: EventTarget): string {
  return JSON.stringify([resource, key, updated, isDelete]);
}
