import { randomBytes } from 'node:crypto';
import type { Clock } from '../model/clock.ts';

/** An answer to a control, as a page shows it. */
export interface Told {
  /** False where it was not done. */
  done: boolean;
  message: string;
  hint: string | null;
}

/** Answers that are shown on the page to which their reader is sent. */
export interface ToldAnswers {
  /** Returns its id for the page's address. */
  keep(user: string, told: Told): string;
  /** Null if there is none of this id for this user, or it is too old. */
  find(user: string, id: string): Told | null;
}

const KEPT_MS = 10 * 60_000;
const MOST = 200;

/** In memory: texts in an address would show on the page whatever the maker of a link wants. */
export function toldAnswers(clock: Pick<Clock, 'monotonic'>): ToldAnswers {
  const answers = new Map<string, { user: string; told: Told; at: number }>();
  return {
    keep: (user, told) => {
      const id = randomBytes(9).toString('base64url');
      answers.set(id, { user, told, at: clock.monotonic() });
      for (const oldest of answers.keys()) {
        if (answers.size <= MOST) break;
        answers.delete(oldest);
      }
      return id;
    },
    find: (user, id) => {
      const kept = answers.get(id);
      const isGood = kept !== undefined && kept.user === user && clock.monotonic() - kept.at < KEPT_MS;
      return isGood ? kept.told : null;
    },
  };
}
