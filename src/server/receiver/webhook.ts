import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { eventFieldsOf } from '../../config/profile/webhooks.ts';
import { answerChallenge, type ChallengeAnswer } from '../signature/challenges.ts';
import { createVerifier, type Verify } from '../signature/create-verifier.ts';
import type { Delivery, SignatureVerdict } from '../signature/delivery.ts';
import type { InboxEffect, NewDelivery } from '../../database/inbox.ts';
import {
  type Admission,
  admissionOf,
  type BodyBudget,
  type HeldBody,
  jsonIn,
  readBody,
  refusalBeforeBody,
} from './body.ts';
import { deliveryMask, withoutFields } from './mask-delivery.ts';
import { type Outcome, type RefusalReason, refused } from './requests.ts';
import type { ReceivedSource, ReceiverNote, RefusalLog } from './setup.ts';

/** How deliveries of one source are handled, prepared once. */
export interface Recipient {
  admission: Admission;
  verify: Verify;
  challenge: (delivery: Delivery, verified: boolean, now: number) => ChallengeAnswer | null;
  /** Names of the headers that are stored, in lower case. */
  storedHeaders: readonly string[];
  /** Removes secrets and hidden fields. */
  mask: (delivery: NewDelivery) => NewDelivery;
  /** Resolves once it is committed. */
  store: (delivery: NewDelivery) => Promise<InboxEffect>;
}

/** Throws `ConfigError` for secrets that the scheme of the source cannot use. */
export function recipientOf(
  source: ReceivedSource,
  maskedSecrets: readonly string[],
  store: Recipient['store'] = neverStore,
): Recipient {
  const { webhook, profile, hidden = [] } = source;
  const { secrets } = webhook;
  const scheme = profile.signature;
  const maskSecrets = deliveryMask(maskedSecrets, scheme, webhook);
  const headers = eventFieldsOf(profile).flatMap(({ from, name }) => (from === 'header' ? [name] : []));
  return {
    admission: admissionOf(scheme, webhook.max_body),
    verify: createVerifier(scheme, secrets, webhook.public_url ?? null),
    challenge: (delivery, verified, now) => answerChallenge(scheme, delivery, { verified, secrets, now }),
    storedHeaders: [...new Set(headers)],
    mask: hidden.length === 0 ? maskSecrets : (delivery) => maskSecrets(withoutFields(delivery, hidden, profile)),
    store,
  };
}

function neverStore(): Promise<never> {
  return Promise.reject(new Error('this recipient has no inbox'));
}

/**
 * Stands for sources that do not exist: takes as long as a source that does and accepts nothing, so that the time of the
 * response shows nothing.
 */
function dummyRecipient(recipient: Recipient): Recipient {
  const verify: Verify = (delivery, now) => {
    recipient.verify(delivery, now);
    return { ok: false, reason: 'no_secret' };
  };
  return { ...recipient, verify, challenge: () => null, store: neverStore };
}

/** Called for each request to a source's address; `seconds` from its headers to its response. */
export type Answered = (source: string, result: string, seconds: number) => void;

interface WebhookParts {
  clock: Clock;
  budget: BodyBudget;
  recipients: ReadonlyMap<string, { recipient: Recipient }>;
  answered: Answered;
  note: (note: ReceiverNote) => void;
  refused: RefusalLog;
}

/** Why an inbox did not store a delivery, by the code of its error. */
const STORE_REFUSALS: Readonly<Record<string, RefusalReason>> = {
  inbox_overloaded: 'overloaded',
  inbox_full: 'inbox_full',
};

/** Receives a delivery for the source of that name. Never throws. */
export function webhookReceiver(parts: WebhookParts): (request: IncomingMessage, name: string) => Promise<Outcome> {
  const { clock, recipients, answered, note } = parts;

  function outcomeOf(error: unknown, source: string): Outcome {
    if (error instanceof SyncError) return refused(STORE_REFUSALS[error.code] ?? 'not_stored');
    note({ level: 'error', event: 'delivery_failed', source, error: messageOf(error) });
    return refused('failed');
  }

  return async (request, name) => {
    const began = clock.monotonic();
    const known = recipients.get(name)?.recipient;
    const [example] = recipients.values();
    const recipient = known ?? (example && dummyRecipient(example.recipient));
    const outcome =
      recipient === undefined
        ? refused('unknown_source')
        : await receive(request, recipient, parts).catch((error: unknown) => outcomeOf(error, name));
    if (known !== undefined) {
      if (outcome.kind === 'refused') parts.refused(name, outcome.reason);
      answered(name, resultOf(outcome), (clock.monotonic() - began) / 1_000);
      return outcome;
    }
    if (outcome.kind === 'gone') return outcome;
    // Whatever the reason of the dummy, the response only says that there is no such source.
    parts.refused(null, 'unknown_source');
    return refused('unknown_source');
  };
}

/** Checks what needs no body first, then reads and verifies the body, then stores it. */
async function receive(
  request: IncomingMessage,
  { admission, verify, challenge, storedHeaders, mask, store }: Recipient,
  { clock, budget }: WebhookParts,
): Promise<Outcome> {
  const { method = '', url: path = '' } = request;
  const early = refusalBeforeBody(admission, method, request.headers);
  if (early !== null) return refused(early);
  const held: HeldBody = { bytes: 0, cut: null };
  try {
    const body = await readBody(request, held, admission.maxBody, budget);
    if (body === 'gone') return { kind: 'gone' };
    if (typeof body === 'string') return refused(body);
    const now = clock.now();
    const delivery: Delivery = { method, path, headers: request.headersDistinct, body };
    const verdict = verify(delivery, now);
    const answer = challenge(delivery, verdict.ok, now);
    if (answer !== null) return { kind: 'challenge', answer };
    if (!verdict.ok) return refused(verdict.reason);
    if (method !== 'POST') return refused('method');
    const json = jsonIn(body, request.headers, admission);
    if (typeof json === 'string') return refused(json);
    if (json !== body) budget.add(held, json.length);
    const made = newDelivery({ ...delivery, body: json }, verdict, storedHeaders, now);
    return { kind: 'stored', effect: await store(mask(made)) };
  } finally {
    budget.release(held);
  }
}

function newDelivery(
  { headers, body }: Delivery,
  { deliveryId, idFrom }: Extract<SignatureVerdict, { ok: true }>,
  storedHeaders: readonly string[],
  now: number,
): NewDelivery {
  const stored = storedHeaders.flatMap((name) => {
    const value = headers[name];
    return value === undefined ? [] : [[name, typeof value === 'string' ? value : value.join(', ')]];
  });
  return {
    delivery_id: deliveryId,
    is_id_sent: idFrom === 'sent',
    received_at: timestampText(now),
    headers: JSON.stringify(Object.fromEntries(stored)),
    body,
  };
}

/** Returns `stored`, `repeat`, `challenge`, `gone`, or why it was refused. */
function resultOf(outcome: Outcome): string {
  if (outcome.kind === 'stored') return outcome.effect === 'repeat' ? 'repeat' : 'stored';
  return outcome.kind === 'refused' ? outcome.reason : outcome.kind;
}
