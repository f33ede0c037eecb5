// Handles one webhook request: limits, signature, challenge, masking, storing.
import type { IncomingMessage } from 'node:http';
import { eventFieldsOf } from '../../config/profile/signature-scheme.ts';
import type { InboxEffect, NewDelivery } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Pages } from '../endpoints/status-pages.ts';
import { answerChallenge, type ChallengeAnswer } from '../signature/challenges.ts';
import { createVerifier, type Verify } from '../signature/create-verifier.ts';
import type { Delivery, SignatureRefusal } from '../signature/delivery.ts';
import { type AcceptedRequests, acceptedRequests, type BodyBudget, jsonIn, refusalBeforeBody } from './body.ts';
import { createSecretMask, hideFields } from './mask-delivery.ts';
import type { ReceivedSource, ReceiverLimits, ReceiverNote } from './setup.ts';

/** The parts that handle the requests of one source, created when the server starts. */
export interface WebhookEndpoint {
  accepted: AcceptedRequests;
  verify: Verify;
  challenge: (delivery: Delivery, verified: boolean, now: number) => ChallengeAnswer | null;
  /** Names of the headers that are stored, in lower case. */
  storedHeaders: readonly string[];
  mask: (delivery: NewDelivery) => NewDelivery;
  /** Resolves once it is committed. */
  store: (delivery: NewDelivery) => Promise<InboxEffect | StoreRefusal>;
}

/** Throws `ConfigError` for secrets that the scheme of the source cannot use. */
export function createEndpoint(
  source: ReceivedSource,
  maskedSecrets: readonly string[],
  store: WebhookEndpoint['store'],
): WebhookEndpoint {
  const { webhook, profile, hidden = [] } = source;
  const { secrets } = webhook;
  const scheme = profile.signature;
  const maskSecrets = createSecretMask(maskedSecrets, scheme, webhook);
  const headers = eventFieldsOf(profile).flatMap(({ from, name }) => (from === 'header' ? [name] : []));
  return {
    accepted: acceptedRequests(scheme, webhook.max_body),
    verify: createVerifier(scheme, secrets, webhook.public_url ?? null),
    challenge: (delivery, verified, now) => answerChallenge(scheme, delivery, { verified, secrets, now }),
    storedHeaders: [...new Set(headers)],
    mask: hidden.length === 0 ? maskSecrets : (delivery) => maskSecrets(hideFields(delivery, hidden, profile)),
    store,
  };
}

/** Status codes of refusals, except those for a missing or wrong signature, which are 401. */
const STATUS_CODES = {
  /** Two Host headers: a proxy may have read the other one. */
  host: 400,
  method: 405,
  not_found: 404,
  unknown_source: 404,
  content_type: 415,
  content_encoding: 415,
  too_large: 413,
  /** Too many requests at the same time. */
  overloaded: 503,
  inbox_full: 503,
  not_stored: 503,
  failed: 503,
} as const;

export type RefusalReason = keyof typeof STATUS_CODES | SignatureRefusal;

export function refusalStatus(reason: RefusalReason): number {
  return Object.entries(STATUS_CODES).find(([listed]) => listed === reason)?.[1] ?? 401;
}

/** The sender sees only the status: reasons are for log and metrics. `gone`: the sender has closed the connection. */
export type DeliveryOutcome =
  | { result: 'stored' | 'repeat' | 'gone' }
  | { result: 'challenge'; answer: ChallengeAnswer }
  | { result: 'refused'; reason: RefusalReason };

function refused(reason: RefusalReason): DeliveryOutcome {
  return { result: 'refused', reason };
}

/** Called for each request to a source's address; `seconds` from its headers to its response. */
export type AnswerListener = (source: string, result: string, seconds: number) => void;

export interface ReceiverContext {
  clock: Clock;
  limits: ReceiverLimits;
  budget: BodyBudget;
  pages: Pages;
  endpoints: ReadonlyMap<string, { endpoint: WebhookEndpoint }>;
  answered: AnswerListener;
  note: (note: ReceiverNote) => void;
  /** `source` is null for a request to an unknown source. */
  deliveryRefused: (source: string | null, reason: RefusalReason) => void;
}

/** Why an inbox does not store a delivery now. */
export type StoreRefusal = 'overloaded' | 'inbox_full';

/** Receives a delivery for the source of that name. Never throws. */
export async function receiveWebhook(
  request: IncomingMessage,
  name: string,
  context: ReceiverContext,
): Promise<DeliveryOutcome> {
  const { clock, endpoints, answered, note, deliveryRefused } = context;
  const began = clock.monotonic();
  const endpoint = endpoints.get(name)?.endpoint;
  if (endpoint === undefined) {
    deliveryRefused(null, 'unknown_source');
    return refused('unknown_source');
  }
  const outcome = await receive(request, endpoint, context).catch((error: unknown) => {
    if (error instanceof SyncError) return refused('not_stored');
    note({ level: 'error', event: 'delivery_failed', source: name, error: messageOf(error) });
    return refused('failed');
  });
  const result = outcome.result === 'refused' ? outcome.reason : outcome.result;
  if (outcome.result === 'refused') deliveryRefused(name, outcome.reason);
  answered(name, result, (clock.monotonic() - began) / 1_000);
  return outcome;
}

/** Checks what needs no body first, then reads and verifies the body, then stores it. */
async function receive(
  request: IncomingMessage,
  { accepted, verify, challenge, storedHeaders, mask, store }: WebhookEndpoint,
  { clock, budget }: ReceiverContext,
): Promise<DeliveryOutcome> {
  const { method = '', url: path = '' } = request;
  const early = refusalBeforeBody(accepted, method, request.headers);
  if (early !== null) return refused(early);
  using received = await budget.read(request, accepted.maxBody);
  const { body } = received;
  if (body === 'gone') return { result: 'gone' };
  if (typeof body === 'string') return refused(body);
  const now = clock.now();
  const delivery: Delivery = { method, path, headers: request.headersDistinct, body };
  const verdict = verify(delivery, now);
  const answer = challenge(delivery, verdict.ok, now);
  if (answer !== null) return { result: 'challenge', answer };
  if (!verdict.ok) return refused(verdict.reason);
  if (method !== 'POST') return refused('method');
  const json = jsonIn(body, request.headers, accepted);
  if (typeof json === 'string') return refused(json);
  // A decompressed body takes more memory than was counted for it.
  if (json !== body) received.count(json.length);
  const headers = storedHeaders.flatMap((name) => {
    const values = request.headersDistinct[name];
    return values === undefined ? [] : [[name, values.join(', ')]];
  });
  const effect = await store(
    mask({
      delivery_id: verdict.deliveryId,
      is_id_sent: verdict.idFrom === 'sent',
      received_at: timestampText(now),
      headers: JSON.stringify(Object.fromEntries(headers)),
      body: json,
    }),
  );
  if (effect === 'overloaded' || effect === 'inbox_full') return refused(effect);
  return { result: effect === 'repeat' ? 'repeat' : 'stored' };
}
