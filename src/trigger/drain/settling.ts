import type { Clock } from '../../model/clock.ts';
import type { InboxPort, Settlement } from '../../warehouse/inbox.ts';

export interface SettlingOptions {
  inbox: InboxPort;
  clock: Clock;
  /** Aborted when the drain stops: what cannot be stored then is left, and is done again by the next process. */
  signal: AbortSignal;
  /** Told of what is stored. */
  stored: (settlements: readonly Settlement[]) => void;
  /** Told of every attempt that failed. */
  failed: (error: unknown) => void;
}

const MOST_AT_ONCE = 1_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/** Stores what became of deliveries, all those of one moment together, and tries until it works. */
export class Settling {
  readonly #options: SettlingOptions;
  #waiting: Settlement[] = [];
  #writing: Promise<void> | null = null;

  constructor(options: SettlingOptions) {
    this.#options = options;
  }

  add(settlement: Settlement): void {
    this.#waiting.push(settlement);
    this.#writing ??= this.#write();
  }

  /** Resolves when nothing is left to store, or nothing can be while the drain stops. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // What is decided in this same moment goes along.
    await Promise.resolve();
    let wait = FIRST_WAIT_MS;
    let goesOn = true;
    while (goesOn && this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MOST_AT_ONCE);
      if (await this.#store(batch)) {
        this.#waiting = this.#waiting.slice(batch.length);
        this.#options.stored(batch);
        wait = FIRST_WAIT_MS;
      } else {
        goesOn = await this.#rest(wait);
        wait = Math.min(2 * wait, LONGEST_WAIT_MS);
      }
    }
    // Here and not when the promise is settled, so that nothing is added in between and then left lying.
    this.#writing = null;
  }

  async #store(batch: readonly Settlement[]): Promise<boolean> {
    try {
      await this.#options.inbox.settle(batch);
      return true;
    } catch (error) {
      this.#options.failed(error);
      return false;
    }
  }

  async #rest(ms: number): Promise<boolean> {
    const { clock, signal } = this.#options;
    return clock.sleep(ms, signal).then(
      () => true,
      () => false,
    );
  }
}
