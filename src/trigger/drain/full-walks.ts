import type { Clock } from '../../model/clock.ts';
import { faultOf, type DrainFault } from './faults.ts';
import { PacedWork, type PacedWorkOptions } from './paced-work.ts';
import type { Request } from './ticket.ts';

/** However many deletes cannot be confirmed: a full walk may be long. */
const PACE = { everyMs: 600_000, burst: 1, restMs: 600_000 };
/** After so long, a delivery that waits for a full walk is looked at again. */
const LOOK_MS = 30_000;

type FullWalksOptions = Pick<PacedWorkOptions<number>, 'clock' | 'random' | 'signal' | 'threw'> & {
  resources: number;
  /** Runs a full walk of a resource. */
  walk: (resource: string) => Promise<void>;
};

/** Full walks, asked for by events that say that a record is gone if nothing else can tell. */
export class FullWalks {
  readonly #clock: Clock;
  readonly #work: PacedWork<number>;
  /** Resources that are to be walked. */
  readonly #asked = new Set<string>();
  /** When the last one began that has ended well, by resource; epoch milliseconds. */
  readonly #begun = new Map<string, number>();

  constructor({ resources, walk, ...parts }: FullWalksOptions) {
    const { clock } = parts;
    this.#clock = clock;
    this.#work = new PacedWork({
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
    return this.#work.underWay;
  }

  /** True if a full walk of this process has begun after the delivery came, and has ended well. */
  hasServed({ target, ticket }: Request): boolean {
    return (this.#begun.get(target.resource) ?? -Infinity) > ticket.receivedAt;
  }

  /** Asks for a walk; returns the fault with which the delivery waits meanwhile. */
  ask(request: Request): DrainFault {
    const { resource } = request.target;
    if (!this.#asked.has(resource)) {
      this.#asked.add(resource);
      this.#work.add(request);
      this.#work.pump();
    }
    return {
      kind: 'passing',
      code: 'unconfirmed',
      reason: 'it says that a record is gone, and only a whole walk can tell: one is asked for [unconfirmed]',
      until: this.#clock.now() + LOOK_MS,
      isOthers: false,
    };
  }

  /** Leaves no resource alone any more. */
  retry(): void {
    this.#work.retry();
  }

  idle(): Promise<void> {
    return this.#work.idle();
  }

  #forget(served: readonly Request[]): void {
    for (const { target } of served) this.#asked.delete(target.resource);
  }
}
