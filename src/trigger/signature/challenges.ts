import { createHmac } from 'node:crypto';
import type { DeliveryField } from '../../source/delivery-field.ts';
import type { WebhookSecret } from '../../source/signature-secret.ts';
import type { SignatureScheme } from '../../source/signature-scheme.ts';
import type { Delivery } from './delivery.ts';
import { VERIFY_TOKEN_ID, PROVERS } from './prove.ts';
import { textAt } from './text-at.ts';

/** The answer to a sender that tests the address; always with `x-content-type-options: nosniff`. */
export interface ChallengeAnswer {
  status: 200;
  contentType: 'text/plain' | 'application/json';
  body: string;
}

/** Facts that an answer may need besides the question. */
export interface ChallengeFacts {
  /** Whether the signature was right and young enough. */
  verified: boolean;
  secrets: readonly WebhookSecret[];
  /** Epoch milliseconds. */
  now: number;
}

interface Challenge {
  methods: readonly string[];
  /** Answered only if the signature is right. */
  signed: boolean;
  answer: (delivery: Delivery, secrets: readonly WebhookSecret[]) => ChallengeAnswer | null;
}

/** Text that may be sent back: no mark-up, no line breaks, nothing long. */
const ECHOED = /^[\w .:;,+/=~-]{1,512}$/;

const CHALLENGES: Readonly<Record<NonNullable<SignatureScheme['challenge']>, Challenge>> = {
  slack: {
    methods: ['POST'],
    signed: true,
    answer: (delivery) =>
      at(delivery, 'json', 'type') === 'url_verification' ? echo(at(delivery, 'json', 'challenge')) : null,
  },
  discord: {
    methods: ['POST'],
    signed: true,
    answer: (delivery) => (at(delivery, 'json', 'type') === '1' ? json({ type: 1 }) : null),
  },
  meta: {
    methods: ['GET'],
    signed: false,
    answer: (delivery, secrets) => {
      const token = at(delivery, 'query', 'hub.verify_token') ?? '';
      const isKnown = secrets.filter(({ id, value }) => id === VERIFY_TOKEN_ID && isSame(value, token)).length > 0;
      const isAsked = at(delivery, 'query', 'hub.mode') === 'subscribe' && isKnown;
      return isAsked ? echo(at(delivery, 'query', 'hub.challenge')) : null;
    },
  },
  msgraph: {
    methods: ['POST', 'GET'],
    signed: false,
    answer: (delivery) => echo(at(delivery, 'query', 'validationToken')),
  },
  zoom: {
    methods: ['POST'],
    signed: true,
    answer: (delivery, [secret]) => {
      const plainToken = at(delivery, 'json', 'payload.plainToken') ?? '';
      const isAsked = at(delivery, 'json', 'event') === 'endpoint.url_validation' && ECHOED.test(plainToken);
      if (!isAsked || secret === undefined) return null;
      const encryptedToken = createHmac('sha256', secret.value).update(plainToken).digest('hex');
      return json({ plainToken, encryptedToken });
    },
  },
};

/**
 * The answer to the question by which the scheme's sender tests a new address; null if the request asks nothing, or
 * is not signed though it must be: then it is a delivery like any other.
 */
export function answerChallenge(
  scheme: SignatureScheme,
  delivery: Delivery,
  { verified, secrets, now }: ChallengeFacts,
): ChallengeAnswer | null {
  if (scheme.challenge === null) return null;
  const { methods, signed, answer } = CHALLENGES[scheme.challenge];
  if (!methods.includes(delivery.method) || (signed && !verified)) return null;
  const active = secrets.filter(({ until = Infinity }) => now <= until);
  return answer(delivery, active);
}

/** Methods besides POST by which the scheme's sender may ask. */
export function challengeMethods(scheme: SignatureScheme): readonly string[] {
  return scheme.challenge === null ? [] : CHALLENGES[scheme.challenge].methods;
}

function at(delivery: Delivery, from: DeliveryField['from'], name: string): string | null {
  return textAt({ from, name }, delivery, new Map());
}

function echo(text: string | null): ChallengeAnswer | null {
  return text !== null && ECHOED.test(text) ? { status: 200, contentType: 'text/plain', body: text } : null;
}

function json(value: object): ChallengeAnswer {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}

function isSame(secret: string, given: string): boolean {
  return PROVERS.static(Buffer.from(secret), 'sha256', 'hex')([], [given]);
}
