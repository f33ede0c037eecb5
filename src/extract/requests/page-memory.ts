import { answerMemory, type AnswerHold } from '../../http/body/answer-memory.ts';
import { discardBody } from '../../http/body/body.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';

/** Bytes of memory that a record takes on its way into the warehouse, besides its values. */
const PER_RECORD = 2_048;
/** Milliseconds that a page waits until there is memory for its records. */
const LONGEST_WAIT = 120_000;

/** An answer's part in the account, and the body that it stands for. */
interface TakenAnswer {
  hold: AnswerHold;
  bytes: Buffer;
}

/** The ends of a page that was handed out; each may be called again. */
interface HandedOut {
  /** Gives back what the page takes of the account. */
  release: () => void;
  /** The same, and gives back the memory of its bodies at once: nothing of them may be read afterwards. */
  discard: () => void;
}

/** The memory that the pages of one walk take, from being asked for until they are written. */
export class PageMemory {
  readonly #open = new Set<AnswerHold>();
  #taken: TakenAnswer[] = [];
  #handedOut = 0;

  /** Pages that were handed out and are not given back yet. */
  get handedOut(): number {
    return this.#handedOut;
  }

  open(): AnswerHold {
    const hold = answerMemory.open();
    this.#open.add(hold);
    return hold;
  }

  /** A page that is in hand from now on. */
  take({ hold, bytes }: TakenAnswer): void {
    this.#taken.push({ hold, bytes });
  }

  /** The ends of the pages that are in hand now. */
  handOut(): HandedOut {
    const taken = this.#taken.splice(0);
    const holds = taken.map(({ hold }) => hold);
    let isOut = true;
    this.#handedOut += 1;
    const release = (): void => {
      this.#handedOut -= isOut ? 1 : 0;
      isOut = false;
      this.#release(holds);
    };
    const discard = (): void => {
      release();
      for (const { bytes } of taken.splice(0)) discardBody(bytes);
    };
    return { release, discard };
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
