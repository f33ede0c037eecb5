import { readRest, unreadOf, type KnownElement } from '../../shape/json/parse-body.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import type { Ask } from './ask.ts';

/** Tells which sources are those of stored rows, letter by letter: such a record need not be read once more. */
export interface KnownRecords {
  /** In place of the value of such a record stands what the walk needs of it. */
  recognise(sources: readonly Buffer[]): Promise<readonly KnownElement[]>;
}

/**
 * Asks for pages of which only those records are read that are not known. If records at this path turn out to lie
 * otherwise than was guessed, the page was judged by something else than what it says: it is asked for once more, and from
 * then on all pages are read as a whole.
 */
export function askKnown(ask: Ask, path: string, known: KnownRecords): Ask {
  let isGuessed = true;
  return async (position, asked) => {
    if (!isGuessed) return ask(position, asked);
    const answer = await ask(position, { ...asked, unread: path });
    const unread = unreadOf(fieldAt(answer.json, path));
    if (unread === null || readRest(unread, await known.recognise(unread.sources))) return answer;
    isGuessed = false;
    return ask(position, asked);
  };
}
