import type { Clock } from '../../model/clock.ts';
import { faultOf, type DrainFault } from './faults.ts';
import { Line, type LineOptions } from './line.ts';
import type { Request } from './ticket.ts';

/** However many deletes cannot be confirmed: a whole walk may be long. */
const PACE = { everyMs: 600_000, burst: 1, restMs: 600_000 };
/** When a delivery that waits for a whole walk is looked at again. */
const LOOK_MS = 30_000;

type WholeWalksOptions = Pick<LineOptions<number>, 'clock' | 'random' | 'signal' | 'threw'> & {
  resources: number;
  /** Walks a resource as a whole. */
  walk: (resource: string) => Promise<void>;
};

/** Whole walks, asked for by events that say that a record is gone where nothing else can tell. */
export class WholeWalks {
  readonly #clock: Clock;
  readonly #line: Line<number>;
  /** Resources that are to be walked. */
  readonly #asked = new Set<string>();
  /** When the last one began that has ended well, by resource; epoch milliseconds. */
  readonly #begun = new Map<string, number>();

  constructor({ resources, walk, ...parts }: WholeWalksOptions) {
    const { clock } = parts;
    this.#clock = clock;
    this.#line = new Line({
      ...parts,
      ...PACE,
      atOnce: resources,
      atOncePerResource: 1,
      keyOf: () => '',
      perform: async ({ resource }) => {
        const begun = clock.now();
        await walk(resource);
        return begun;
      },
      faultOf: (error) => ({ ...faultOf(error), kind: 'passing' }),
      done: (served, begun) => {
        for (const { target } of served) this.#begun.set(target.resource, begun);
        this.#forget(served);
      },
      // The delivery waits in the inbox, and asks again.
      failed: (served) => this.#forget(served),
    });
  }

  get underWay(): number {
    return this.#line.underWay;
  }

  /** True where a whole walk of this process has begun after the delivery came, and has ended. */
  hasServed({ target, ticket }: Request): boolean {
    return (this.#begun.get(target.resource) ?? -Infinity) > ticket.receivedAt;
  }

  /** Asks for a walk; returns what the delivery waits for meanwhile. */
  ask(request: Request): DrainFault {
    const { resource } = request.target;
    if (!this.#asked.has(resource)) {
      this.#asked.add(resource);
      this.#line.add(request);
      this.#line.pump();
    }
    return {
      kind: 'passing',
      code: 'unconfirmed',
      reason: 'it says that a record is gone, and only a whole walk can tell: one is asked for [unconfirmed]',
      until: this.#clock.now() + LOOK_MS,
      isOthers: false,
    };
  }

  idle(): Promise<void> {
    return this.#line.idle();
  }

  #forget(served: readonly Request[]): void {
    for (const { target } of served) this.#asked.delete(target.resource);
  }
}
