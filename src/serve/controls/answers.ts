import { SyncError, messageOf } from '../../model/errors.ts';
import type { ControlAnswer, ControlOrigin } from './control-request.ts';

/** The answer of a request that is carried out. */
export function done(message: string, result?: object): ControlAnswer {
  return { done: true, message, hint: null, ...(result === undefined ? {} : { result }) };
}

/** The answer of one that is not, and what to do next. */
export function refused(code: string, message: string, hint: string | null): ControlAnswer {
  return { done: false, code, message, hint };
}

/** The answer of one that has thrown. */
export function failed(error: unknown): ControlAnswer {
  if (error instanceof SyncError) return refused(error.code, error.message, error.hint ?? null);
  return refused('bug', messageOf(error), null);
}

/** The error of an answer that is not what was asked for. */
export function errorOf({ code = 'refused', message, hint }: ControlAnswer): SyncError {
  return new SyncError(code, message, { recovery: 'stop', ...(hint === null ? {} : { hint }) });
}

/** Who has asked, for people: `ann (command)`. */
export function originText({ via, by }: ControlOrigin): string {
  return by === null ? via : `${by} (${via})`;
}
