import type { ApiAnswer } from '../../http/client.ts';
import { readRest, unreadOf, type KnownElement, type UnreadArray } from '../../shape/json/parse-body.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import type { Ask } from './ask.ts';

/**
 * Tells which records need not be read here: their sources are those of stored rows, letter by letter, or somebody else
 * reads them.
 */
export interface KnownRecords {
  /**
   * In place of the value of such a record stands what the walk needs of it; all are to be read if it returns none.
   * `requestedAt`: local epoch milliseconds just before the page was asked for.
   */
  recognise(unread: UnreadArray, requestedAt: number): Promise<readonly KnownElement[]>;
}

/** How a walk asks for pages ahead, and reads their records once it is a page's turn. */
export interface LateReading {
  ask: Ask;
  /** The answer with all its records, to be called in its turn; `again` asks for it once more. */
  read(answer: ApiAnswer, again: () => Promise<ApiAnswer>): Promise<ApiAnswer>;
}

/**
 * Leaves the records at this path unread until it is their page's turn, and those that are `known` then too. If records
 * turn out to lie otherwise than was guessed, the page was judged by something else than what it says: it is asked for
 * once more, and from then on all pages are read as a whole.
 */
export function lateReading(ask: Ask, path: string, known: KnownRecords): LateReading {
  const recognised = new WeakMap<UnreadArray, readonly KnownElement[]>();
  let isGuessed = true;
  return {
    ask: async (position, asked) => {
      if (!isGuessed) return ask(position, asked);
      const answer = await ask(position, { ...asked, unread: path });
      const unread = unreadOf(fieldAt(answer.json, path));
      if (unread !== null) recognised.set(unread, await known.recognise(unread, answer.requestedAt));
      return answer;
    },
    read: async (answer, again) => {
      const unread = unreadOf(fieldAt(answer.json, path));
      if (unread === null) return answer;
      const isRead = readRest(unread, recognised.get(unread) ?? []);
      recognised.delete(unread);
      if (isRead) return answer;
      isGuessed = false;
      return again();
    },
  };
}
