import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { eventFieldsOf, type WebhookProfile } from '../../config/profile/webhooks.ts';
import { answerChallenge, type ChallengeAnswer } from '../signature/challenges.ts';
import { createVerifier, verifierForNobody, type Verify } from '../signature/create-verifier.ts';
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
import type { RefusalLog } from './refusal-log.ts';
import { type Outcome, type RefusalReason, refused } from './requests.ts';
import type { ReceivedSource, ReceiverNote } from './setup.ts';

/** A source as the receiver of its deliveries, made ready once. */
interface Recipient {
  admission: Admission;
  verify: Verify;
  challenge: (delivery: Delivery, verified: boolean, now: number) => ChallengeAnswer | null;
  /** Names of the headers that are stored, in lower case. */
  keptHeaders: readonly string[];
  /** Takes secrets out before the delivery is stored. */
  mask: (delivery: NewDelivery) => NewDelivery;
  /** Resolves once it is committed. */
  store: (delivery: NewDelivery) => Promise<InboxEffect>;
}

/** A source's recipient without its inbox; the `masked` secrets do not get there. Throws `ConfigError` for secrets that its scheme cannot use. */
export function recipientOf(source: ReceivedSource, masked: readonly string[]): Omit<Recipient, 'store'> {
  const { webhook, profile, hidden = [] } = source;
  const { secrets } = webhook;
  const scheme = profile.signature;
  const maskSecrets = deliveryMask(masked, scheme, webhook);
  return {
    admission: admissionOf(scheme, webhook.max_body),
    verify: createVerifier(scheme, secrets, webhook.public_url ?? null),
    challenge: (delivery, verified, now) => answerChallenge(scheme, delivery, { verified, secrets, now }),
    keptHeaders: headersWithEvents(profile),
    mask: hidden.length === 0 ? maskSecrets : (delivery) => maskSecrets(withoutFields(delivery, hidden, profile)),
  };
}

/** Stands for sources that do not exist: it takes as long as one that does, so that the time of its answer shows nothing. */
function decoyRecipient(recipient: Recipient): Recipient {
  return {
    ...recipient,
    verify: verifierForNobody(recipient.verify),
    challenge: () => null,
    store: () => Promise.reject(new Error('a delivery for nobody was believed')),
  };
}

function headersWithEvents(profile: WebhookProfile): string[] {
  return [...new Set(eventFieldsOf(profile).flatMap(({ from, name }) => (from === 'header' ? [name] : [])))];
}

/** A source that takes deliveries. */
export interface Addressee {
  recipient: Recipient;
}

/** Called for each request to a source's address; `seconds` from its headers to its answer. */
export type Answered = (source: string, result: string, seconds: number) => void;

interface WebhookParts {
  clock: Clock;
  budget: BodyBudget;
  addressees: ReadonlyMap<string, Addressee>;
  answered: Answered;
  note: (note: ReceiverNote) => void;
  refusals: Pick<RefusalLog, 'refused'>;
}

/** Why an inbox has not taken a delivery, by the code of its error. */
const NOT_TAKEN: Readonly<Record<string, RefusalReason>> = { inbox_overloaded: 'overloaded', inbox_full: 'inbox_full' };

/**
 * Receives deliveries by the name in their address, and tells what each came to. `invite` lets a sender go on that asks
 * before it sends the body. Never throws.
 */
export function webhookReceiver(parts: WebhookParts) {
  const { clock, addressees, answered, note, refusals } = parts;
  let decoy: { example: Recipient; recipient: Recipient } | null = null;

  /** Null if no source receives webhooks. */
  function decoyNow(): Recipient | null {
    const [first] = addressees.values();
    if (first === undefined) return null;
    const { recipient: example } = first;
    if (decoy?.example !== example) decoy = { example, recipient: decoyRecipient(example) };
    return decoy.recipient;
  }

  /** A delivery that was proved, or may have been, and could not be kept: the sender has to repeat it. */
  function outcomeOf(error: unknown, source: string): Outcome {
    if (error instanceof SyncError) return refused(NOT_TAKEN[error.code] ?? 'not_stored');
    note({ level: 'error', event: 'delivery_failed', source, error: messageOf(error) });
    return refused('failed');
  }

  return async (request: IncomingMessage, name: string, invite: () => void): Promise<Outcome> => {
    const began = clock.monotonic();
    const addressee = addressees.get(name);
    const recipient = addressee?.recipient ?? decoyNow();
    const outcome =
      recipient === null
        ? refused('unknown_source')
        : await receive(request, recipient, invite, parts).catch((error: unknown) => outcomeOf(error, name));
    if (addressee !== undefined) {
      if (outcome.kind === 'refused') refusals.refused(name, outcome.reason);
      answered(name, resultOf(outcome), (clock.monotonic() - began) / 1_000);
      return outcome;
    }
    if (outcome.kind === 'gone') return outcome;
    // Whatever the decoy refused it for, the answer is only that there is no such source.
    refusals.refused(null, 'unknown_source');
    return refused('unknown_source');
  };
}

/** First all that can be refused unread, then the body, then what proves it, then the disk. */
async function receive(
  request: IncomingMessage,
  { admission, verify, challenge, keptHeaders, mask, store }: Recipient,
  invite: () => void,
  { clock, budget }: WebhookParts,
): Promise<Outcome> {
  const { method = '', url: path = '' } = request;
  const early = refusalBeforeBody(admission, method, request.headers);
  if (early !== null) return refused(early);
  invite();
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
    const stored = newDelivery({ ...delivery, body: json }, verdict, keptHeaders, now);
    return { kind: 'stored', effect: await store(mask(stored)) };
  } finally {
    budget.release(held);
  }
}

function newDelivery(
  { headers, body }: Delivery,
  { deliveryId, idFrom }: Extract<SignatureVerdict, { ok: true }>,
  keptHeaders: readonly string[],
  now: number,
): NewDelivery {
  const kept = keptHeaders.flatMap((name) => {
    const value = headers[name];
    return value === undefined ? [] : [[name, typeof value === 'string' ? value : value.join(', ')]];
  });
  return {
    delivery_id: deliveryId,
    is_id_sent: idFrom === 'sent',
    received_at: timestampText(now),
    headers: JSON.stringify(Object.fromEntries(kept)),
    body,
  };
}

/** `stored`, `repeat`, `challenge`, or why it was refused. */
function resultOf(outcome: Outcome): string {
  if (outcome.kind === 'stored') return outcome.effect === 'repeat' ? 'repeat' : 'stored';
  return outcome.kind === 'refused' ? outcome.reason : outcome.kind;
}
