import { sleepOrAbort } from '../../model/waiting.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { Settlement } from '../../warehouse/inbox.ts';
import type { DrainOptions } from './options.ts';

export interface SettlementWriterOptions extends Pick<DrainOptions, 'inbox' | 'persist' | 'secrets' | 'clock'> {
  /** Aborted when the drain stops: what cannot be stored then is left, and is done again by the next process. */
  signal: AbortSignal;
  /** Called with what is stored. */
  stored: (settlements: readonly Settlement[]) => void;
  /** Called for every attempt that failed. */
  failed: (error: unknown) => void;
}

const MOST_AT_ONCE = 1_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/**
 * Settles deliveries, all those of one moment together, and tries until it works. The rows come first: the inbox is
 * synced with every commit, the warehouse is not, and a delivery that is done is never looked at again.
 */
export class SettlementWriter {
  readonly #options: SettlementWriterOptions;
  #waiting: Settlement[] = [];
  #writing: Promise<void> | null = null;

  constructor(options: SettlementWriterOptions) {
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
    // Settlements of this same moment go along.
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
        await sleepOrAbort(this.#options.clock, wait, this.#options.signal);
        goesOn = !this.#options.signal.aborted;
        wait = Math.min(2 * wait, LONGEST_WAIT_MS);
      }
    }
    // Here and not when the promise is settled, so that nothing is added in between and then left lying.
    this.#writing = null;
  }

  async #store(batch: readonly Settlement[]): Promise<boolean> {
    const { inbox, persist, secrets, failed } = this.#options;
    try {
      await persist();
      await inbox.settle(batch.map((settlement) => masked(settlement, secrets)));
      return true;
    } catch (error) {
      failed(error);
      return false;
    }
  }
}

/** Without secrets: errors quote what the service answered. */
function masked({ kind, record_id, reason, ...rest }: Settlement, secrets: readonly string[]): Settlement {
  const clean = (text: string | null): string | null => (text === null ? null : scrubOwn(text, secrets));
  return { ...rest, kind: clean(kind), record_id: clean(record_id), reason: clean(reason) };
}
