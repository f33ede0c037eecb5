import type { DeliveryField } from '../../source/delivery-field.ts';
import type { WebhookProfile } from '../../source/profile.ts';
import { answerChallenge } from '../../trigger/signature/challenges.ts';
import { createVerifier, verifierForNobody } from '../../trigger/signature/create-verifier.ts';
import type { Recipient } from './receive-delivery.ts';
import { deliveryMask } from './mask-delivery.ts';
import { admissionOf } from './admission.ts';
import type { ReceivedSource } from './setup.ts';

/** A source's recipient, less what stores; none of the `masked` secrets gets there. Throws `ConfigError` for secrets that its scheme cannot use. */
export function recipientOf(
  { webhook, profile }: ReceivedSource,
  masked: readonly string[],
  store: Recipient['store'],
): Recipient {
  const { secrets } = webhook;
  const scheme = profile.signature;
  const mask = deliveryMask(masked, scheme, webhook);
  return {
    admission: admissionOf(scheme, webhook.max_body),
    verify: createVerifier(scheme, secrets, webhook.public_url ?? null),
    challenge: (delivery, verified, now) => answerChallenge(scheme, delivery, { verified, secrets, now }),
    keptHeaders: headersWithEvents(profile),
    store: (delivery) => store(mask(delivery)),
  };
}

/** Stands for sources that do not exist: it takes as long as one that does, so that its answer's time tells nothing. */
export function decoyRecipient(recipient: Recipient): Recipient {
  return {
    ...recipient,
    verify: verifierForNobody(recipient.verify),
    challenge: () => null,
    store: () => Promise.reject(new Error('a delivery for nobody was believed')),
  };
}

/** What is finished is remembered at least as long as a sender's signature holds, twice over: a repeat is one. */
export function keepMsOf({ webhook, profile }: ReceivedSource): number {
  const { timestamp } = profile.signature;
  return Math.max(webhook.keep, timestamp === null ? 0 : 2 * (timestamp.past + timestamp.future));
}

function headersWithEvents({ kind, resource, id, updated }: WebhookProfile): string[] {
  const places: (DeliveryField | null)[] = [kind, resource, id, updated];
  return [...new Set(places.flatMap((place) => (place?.from === 'header' ? [place.name] : [])))];
}
