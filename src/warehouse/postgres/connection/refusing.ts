import { errorCode } from './errors.ts';

const REFUSED = '22P02';

/**
 * An expression that fails unless a condition holds: so a transaction of one question is not committed where something
 * is not as it must be. `found` is text for `refusedWith`; both must depend on rows, else the server computes it before
 * it looks at the condition.
 */
export function refusing(condition: string, found: string): string {
  return `CASE WHEN ${condition} THEN 0 ELSE ('refused: ' || coalesce(${found}, '') || ';')::int END`;
}

/** What was found instead; null if it is another error. */
export function refusedWith(error: Error): string | null {
  return errorCode(error) === REFUSED ? (/refused: (.*);/.exec(error.message)?.[1] ?? null) : null;
}
