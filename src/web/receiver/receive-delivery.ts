import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { ChallengeAnswer } from '../../trigger/signature/challenges.ts';
import type { Delivery, SignatureVerdict } from '../../trigger/signature/delivery.ts';
import type { Verify } from '../../trigger/signature/create-verifier.ts';
import type { InboxEffect, NewDelivery } from '../../warehouse/inbox.ts';
import { refusalBeforeBody, type Admission } from './admission.ts';
import { readBody, type BodyBudget, type HeldBody } from './body.ts';
import { refused, type Outcome } from './outcome.ts';

/** Whom deliveries are for, made ready once. */
export interface Recipient {
  admission: Admission;
  verify: Verify;
  challenge: (delivery: Delivery, verified: boolean, now: number) => ChallengeAnswer | null;
  /** Names of the headers that are stored, in lower case. */
  keptHeaders: readonly string[];
  /** Resolves once it is committed. */
  store: (delivery: NewDelivery) => Promise<InboxEffect>;
}

export interface ReceiveParts {
  clock: Clock;
  budget: BodyBudget;
  /** Says that the body may be sent, to a sender that asks first. */
  invite: () => void;
}

/** The order of work: all that can be refused without reading is, then the body, then what it is proved by, then the disk. */
export async function receiveDelivery(
  request: IncomingMessage,
  { admission, verify, challenge, keptHeaders, store }: Recipient,
  { clock, budget, invite }: ReceiveParts,
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
    return { kind: 'stored', effect: await store(newDelivery(delivery, verdict, keptHeaders, now)) };
  } finally {
    budget.giveBack(held);
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
