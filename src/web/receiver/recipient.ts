import { eventFieldsOf, type WebhookProfile } from '../../source/webhooks.ts';
import { answerChallenge, type ChallengeAnswer } from '../../trigger/signature/challenges.ts';
import { createVerifier, verifierForNobody, type Verify } from '../../trigger/signature/create-verifier.ts';
import type { Delivery } from '../../trigger/signature/delivery.ts';
import type { InboxEffect, NewDelivery } from '../../warehouse/inbox.ts';
import type { ReceivedSource } from './setup.ts';
import { admissionOf, type Admission } from './admission.ts';
import { withoutFields } from './hide-fields.ts';
import { deliveryMask } from './mask-delivery.ts';

/** A source as the receiver of its deliveries, made ready once. */
export interface Recipient {
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
export function decoyRecipient(recipient: Recipient): Recipient {
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
