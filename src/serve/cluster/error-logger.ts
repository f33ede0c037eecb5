import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';

/** The same error is logged at most this often. */
const TELL_MS = 10_000;

/** Logs an error; the same one, however often it comes, is one line now and then. */
export function errorLogger(log: Logger, clock: Clock): (error: unknown) => void {
  const toldAt = new Map<string, number>();
  return (error) => {
    const message = messageOf(error);
    const now = clock.monotonic();
    if (now - (toldAt.get(message) ?? Number.NEGATIVE_INFINITY) < TELL_MS) return;
    if (toldAt.size > 100) toldAt.clear();
    toldAt.set(message, now);
    log.warn({ error }, `work was put off: ${message}`);
  };
}
