import { messageOf, SyncError } from '../../model/errors.ts';

/** One thing that was tested against the live service. */
export interface CheckFinding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  hint?: string | undefined;
}

/** The finding of a test that threw. */
export function failure(check: string, error: unknown): CheckFinding {
  return { check, status: 'fail', detail: messageOf(error), hint: error instanceof SyncError ? error.hint : undefined };
}
