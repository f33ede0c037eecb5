import { answerMemory, type AnswerHold } from '../../http/body/answer-memory.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';

/** Bytes of memory that a record takes on its way into the warehouse, besides its values. */
const PER_RECORD = 2_048;
/** Milliseconds that a page waits until there is memory for its records. */
const LONGEST_WAIT = 120_000;

/** The memory that the pages of one walk take, from being asked for until they are written. */
export class PageMemory {
  readonly #open = new Set<AnswerHold>();
  #taken: AnswerHold[] = [];

  open(): AnswerHold {
    const hold = answerMemory.open();
    this.#open.add(hold);
    return hold;
  }

  /** A page that is in hand from now on. */
  take(hold: AnswerHold): void {
    this.#taken.push(hold);
  }

  /** Gives back, once it is called, what the pages took that are in hand now. */
  handOut(): () => void {
    const holds = this.#taken;
    this.#taken = [];
    return () => this.#release(holds);
  }

  /** Gives everything back. */
  close(): void {
    this.#release([...this.#open]);
  }

  #release(holds: readonly AnswerHold[]): void {
    for (const hold of holds) {
      hold.release();
      this.#open.delete(hold);
    }
  }
}

/** Whether a page may wait, and for how long. */
interface AdmissionWait {
  isAhead: boolean;
  clock: Pick<Clock, 'sleep'>;
  signal: AbortSignal | undefined;
}

/**
 * Counts a page's records in. In its turn a page waits until there is memory for them. Throws `SyncError`: `memory_full`,
 * `body_too_heavy`; then the page's memory is given back.
 */
export async function admitRecords(
  hold: AnswerHold,
  records: number,
  { isAhead, clock, signal }: AdmissionWait,
): Promise<void> {
  try {
    const isGrown = grown(hold, records * PER_RECORD, isAhead);
    if (isGrown) return;
    await hold.takeTurn(clock, LONGEST_WAIT, signal);
    hold.grow(records * PER_RECORD);
  } catch (error) {
    hold.release();
    throw error;
  }
}

function grown(hold: AnswerHold, bytes: number, mustNotWait: boolean): boolean {
  try {
    hold.grow(bytes);
    return true;
  } catch (error) {
    if (mustNotWait || !(error instanceof SyncError) || error.code !== 'memory_full') throw error;
    return false;
  }
}
