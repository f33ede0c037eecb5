import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ChallengeAnswer } from '../../trigger/signature/challenges.ts';
import type { SignatureRefusal } from '../../trigger/signature/delivery.ts';
import type { InboxEffect } from '../../warehouse/inbox.ts';

/** Why a request is refused before its signature is looked at, with the status of its answer. */
const REFUSALS = {
  /** Two Host headers: a proxy may have read the other one. */
  host: 400,
  method: 405,
  not_found: 404,
  unknown_source: 404,
  content_type: 415,
  content_encoding: 415,
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

/** The outcome of a request. The sender sees the status only: reasons are for our own figures. */
export type Outcome =
  | { kind: 'stored'; effect: InboxEffect }
  | { kind: 'challenge'; answer: ChallengeAnswer }
  | { kind: 'refused'; reason: RefusalReason }
  /** The sender has gone. */
  | { kind: 'gone' };

/** Whatever is wrong with a signature, the answer is the same 401. */
function statusOf(reason: RefusalReason): number {
  return isOwn(reason) ? REFUSALS[reason] : 401;
}

function isOwn(reason: RefusalReason): reason is keyof typeof REFUSALS {
  return Object.hasOwn(REFUSALS, reason);
}

export function refused(reason: RefusalReason): Outcome {
  return { kind: 'refused', reason };
}

/** Seconds after which a sender tries again that was refused for a lock or a full disk. */
const RETRY_AFTER_S = '2';
/** An inbox that is full has not been worked on for long, and will not be within seconds. */
const FULL_RETRY_AFTER_S = '60';
/** The unread rest of a body up to this size is skipped, so that the connection can be used on. */
const SMALL_BODY = 65_536;
/** How long a connection stays that is to be cut, so that its sender sees the answer before the cut. */
const LINGER_MS = 300;

/** Answers to deliveries have no body, so that none shows more than its status. */
export function sendOutcome(outcome: Outcome, request: IncomingMessage, response: ServerResponse): void {
  if (outcome.kind === 'gone') response.destroy();
  else if (outcome.kind === 'stored') response.writeHead(202, { 'content-length': '0' }).end();
  else if (outcome.kind === 'challenge') sendChallenge(outcome.answer, response);
  else sendRefusal(outcome.reason, request, response);
}

function sendChallenge({ status, contentType, body }: ChallengeAnswer, response: ServerResponse): void {
  const headers = { 'content-type': contentType, 'x-content-type-options': 'nosniff' };
  response.writeHead(status, { 'content-length': String(Buffer.byteLength(body)), ...headers }).end(body);
}

function sendRefusal(reason: RefusalReason, request: IncomingMessage, response: ServerResponse): void {
  const status = statusOf(reason);
  response.statusCode = status;
  response.setHeader('content-length', '0');
  if (status === 405 && !response.hasHeader('allow')) response.setHeader('allow', 'POST');
  if (status === 503) response.setHeader('retry-after', reason === 'inbox_full' ? FULL_RETRY_AFTER_S : RETRY_AFTER_S);
  if (hasLittleLeft(request)) return void response.end();
  response.shouldKeepAlive = false;
  response.flushHeaders();
  // Unread bytes turn a close into a reset, and a reset may overtake the answer.
  const timer = setTimeout(() => response.end(), LINGER_MS);
  response.once('close', () => clearTimeout(timer));
}

/** True if the rest of the request is soon skipped. */
function hasLittleLeft(request: IncomingMessage): boolean {
  if (request.readableEnded) return true;
  const { 'content-length': length, 'transfer-encoding': encoding, expect } = request.headers;
  // A sender that asks first may never send it: what comes next would be taken for it.
  if (expect !== undefined) return false;
  return request.readableFlowing === null && encoding === undefined && Number(length ?? 0) <= SMALL_BODY;
}
