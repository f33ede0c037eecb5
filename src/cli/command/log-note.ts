import type { Logger } from 'pino';
import type { ReceiverNote } from '../../server/receiver/setup.ts';

/** Logs what the receiver tells of; the name of the event is the code of its error. */
export function logNote(log: Logger, { level, event, error, ...rest }: ReceiverNote): void {
  log[level]({ ...rest, ...(error === undefined ? {} : { error: { code: event, message: error } }) }, event);
}
