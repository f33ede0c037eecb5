import type { ChallengeAnswer } from '../../trigger/signature/challenges.ts';
import type { SignatureRefusal } from '../../trigger/signature/delivery.ts';
import type { InboxEffect } from '../../warehouse/inbox.ts';

/** Why a request is refused before its signature is looked at, and what it is told. */
const REFUSALS = {
  method: 405,
  not_found: 404,
  unknown_source: 404,
  content_type: 415,
  expectation: 417,
  too_large: 413,
  /** Too much at once; the sender is asked to come again. */
  overloaded: 503,
  /** As much waits in the inbox as may. */
  inbox_full: 503,
  /** The inbox could not take it. */
  not_stored: 503,
  /** A bug of ours: the sender is asked to come again all the same. */
  failed: 503,
} as const;

export type RefusalReason = keyof typeof REFUSALS | SignatureRefusal;

/** What is said to the sender. Reasons are for our own figures only. */
export type Outcome =
  | { kind: 'stored'; effect: InboxEffect }
  | { kind: 'challenge'; answer: ChallengeAnswer }
  | { kind: 'refused'; reason: RefusalReason }
  /** Whoever asked is gone. */
  | { kind: 'gone' };

/** All that is wrong with a signature is told as the same 401. */
export function statusOf(reason: RefusalReason): number {
  return isOwn(reason) ? REFUSALS[reason] : 401;
}

function isOwn(reason: RefusalReason): reason is keyof typeof REFUSALS {
  return Object.hasOwn(REFUSALS, reason);
}

export function refused(reason: RefusalReason): Outcome {
  return { kind: 'refused', reason };
}
