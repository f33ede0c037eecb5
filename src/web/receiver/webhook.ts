import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Delivery, SignatureVerdict } from '../../trigger/signature/delivery.ts';
import type { NewDelivery } from '../../warehouse/inbox.ts';
import type { ReceiverNote } from './setup.ts';
import { countUp, observe, type SourceFigures } from './figures.ts';
import { refusalBeforeBody } from './admission.ts';
import { refused, type Outcome, type RefusalReason } from './answer.ts';
import { jsonIn, readBody, type BodyBudget, type HeldBody } from './body.ts';
import { decoyRecipient, type Recipient } from './recipient.ts';
import type { RefusedDeliveries } from './refused-deliveries.ts';

/** A source that takes deliveries, and what it has counted of them. */
export interface Addressee {
  recipient: Recipient;
  figures: SourceFigures;
}

interface WebhookParts {
  clock: Clock;
  budget: BodyBudget;
  addressees: ReadonlyMap<string, Addressee>;
  note: (note: ReceiverNote) => void;
  refusals: Pick<RefusedDeliveries, 'refused'>;
}

/** Why an inbox has not taken a delivery, by the code of its error. */
const NOT_TAKEN: Readonly<Record<string, RefusalReason>> = { inbox_overloaded: 'overloaded', inbox_full: 'inbox_full' };

/**
 * Receives deliveries by the name in their address, and counts their outcomes. `invite` lets a sender go on that asks
 * before it sends the body. Never throws.
 */
export function webhookReceiver(parts: WebhookParts) {
  const { clock, addressees, note, refusals } = parts;
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
      countOutcome(addressee.figures, outcome, (clock.monotonic() - began) / 1_000);
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

/** `seconds` from the request's headers to its outcome. */
function countOutcome(figures: SourceFigures, outcome: Outcome, seconds: number): void {
  figures.received += 1;
  if (outcome.kind === 'refused') return countUp(figures.refused, outcome.reason);
  if (outcome.kind === 'gone') return countUp(figures.refused, 'gone');
  if (outcome.kind === 'challenge') return void (figures.challenges += 1);
  if (outcome.effect === 'repeat') figures.repeats += 1;
  else figures.stored += 1;
  observe(figures.acks, seconds);
}
