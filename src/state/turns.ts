import PQueue from 'p-queue';

/** What the work of a turn leaves when it is done. */
export interface Unanswered<T> {
  answer: Promise<T>;
}

/** A turn that is over before its answer has come. */
export interface SentTurn<T> {
  /** Resolves once the turn is over: what it writes is sent, or written already. Rejects if the turn has failed. */
  sent: Promise<void>;
  answered: Promise<T>;
}

/** So many turns of a sender are unanswered at most: the one that is written, and the one behind it. */
const MOST_UNANSWERED = 2;

interface Left {
  turn: number;
  sender: object;
  answer: Promise<unknown>;
}

/** The turns in which a resource is written, one after the other. */
export class Turns {
  #begun = 0;
  readonly #queue = new PQueue({ concurrency: 1 });
  /** What turns have left to be answered, in their order. */
  readonly #left: Left[] = [];

  /** Turns begun so far. */
  get begun(): number {
    return this.#begun;
  }

  /** The oldest turn that is not answered; the latest if all are. */
  get oldest(): number {
    return this.#left[0]?.turn ?? this.#begun;
  }

  /** Runs `work` when no other turn is under way and nothing is unanswered. */
  take<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.add(async () => {
      await this.#untilLeft(() => this.#left.length === 0);
      this.#begun += 1;
      return work();
    });
  }

  /**
   * Runs `work` when no other turn is under way, and nothing is unanswered but what this sender has sent itself. The turn
   * is over with it, and the answer may come later.
   */
  send<T>(sender: object, work: () => Promise<Unanswered<T>>): SentTurn<T> {
    return sentTurn(
      this.#queue.add(async () => {
        await this.#untilLeft(
          () => this.#left.length < MOST_UNANSWERED && this.#left.every((left) => left.sender === sender),
        );
        this.#begun += 1;
        const { answer } = await work();
        this.#leave({ turn: this.#begun, sender, answer });
        return { answer };
      }),
    );
  }

  /** Resolves once no turn is under way, and nothing is unanswered. */
  async allAnswered(): Promise<void> {
    await this.#queue.onIdle();
    await this.#untilLeft(() => this.#left.length === 0);
  }

  /** Whatever the answers are: who has sent gets to know them. */
  async #untilLeft(isEnough: () => boolean): Promise<void> {
    while (!isEnough()) await Promise.allSettled([this.#left[0]?.answer]);
  }

  #leave(left: Left): void {
    this.#left.push(left);
    const isAnswered = (): void => void this.#left.splice(this.#left.indexOf(left), 1);
    left.answer.then(isAnswered, isAnswered);
  }
}

/** What nobody waits for is no error that nobody has handled. */
function sentTurn<T>(turn: Promise<Unanswered<T>>): SentTurn<T> {
  const sent = turn.then(ignore);
  const answered = turn.then(({ answer }) => answer);
  sent.catch(ignore);
  answered.catch(ignore);
  return { sent, answered };
}

const ignore = (): void => undefined;
