import type { DeliveryState } from './inbox.ts';

/** What a request means whose delivery stands there already. */
export type Repetition = 'count' | 'countEvent' | 'waitAgain';

/**
 * A repeat of the sender's own id is no news, unless nobody could work on the first one. Where the id is only the hash
 * of the body, the same body may be a new event: a finished one is worked on again, a waiting one not settled unread.
 */
export function repetition(state: DeliveryState, isIdSent: boolean): Repetition {
  if (isIdSent) return state === 'dead' ? 'waitAgain' : 'count';
  return state === 'waiting' ? 'countEvent' : 'waitAgain';
}
