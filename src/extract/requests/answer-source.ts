import type { AnswerHold } from '../../http/body/answer-memory.ts';
import type { ApiAnswer } from '../../http/client.ts';
import type { PagePosition } from '../page.ts';

/** What the page in hand says about the ones to come. */
export interface Foreseen {
  next: PagePosition | null;
  /** Records on the page in hand. */
  received: number;
  /** Records that the whole listing is likely to hold; null if unknown. */
  total: number | null;
}

/** An answer with the request that was sent for its position. */
export interface PageAnswer extends ApiAnswer {
  request: URL;
  /** The memory that it takes, until nothing of it is needed any more. */
  hold: AnswerHold;
}

/** Gets answers by position; a walk asks in the order of the listing. */
export interface AnswerSource {
  take(position: PagePosition): Promise<PageAnswer>;
  /** Says what the page in hand showed, just before the consumer gets it. To be awaited. */
  foresee(page: Foreseen): Promise<void>;
  /** Says how long the consumer kept that page, in milliseconds. */
  consumed(heldMs: number): void;
  /** Aborts and awaits whatever is still under way. */
  close(): Promise<void>;
}

/** One page at a time, asked for when it is wanted. */
export function oneByOne(take: AnswerSource['take']): AnswerSource {
  return { take, foresee: async () => {}, consumed: () => {}, close: async () => {} };
}
