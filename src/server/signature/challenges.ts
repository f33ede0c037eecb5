import { createHmac } from 'node:crypto';
import type { z } from 'zod';
import {
  challengeSchema,
  type DeliveryField,
  type EchoChallenge,
  type FieldCondition,
} from '../../config/profile/basic-fields.ts';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import type { WebhookSecret } from '../../config/profile/signature-secret.ts';
import { fitsPattern } from '../inbox/fits-pattern.ts';
import { type Delivery, type Parts, textAt } from './delivery.ts';
import { PROVERS, VERIFY_TOKEN_ID } from './prove.ts';

const NO_PARTS: Parts = new Map();

/** The answer to a sender that tests the address; always with `x-content-type-options: nosniff`. */
export interface ChallengeAnswer {
  status: 200;
  contentType: 'text/plain' | 'application/json';
  body: string;
}

/** Facts that an answer may need besides the question. */
interface ChallengeFacts {
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

const CHALLENGES: Readonly<Record<Extract<SignatureScheme['challenge'], string>, Challenge>> = {
  slack: echoed({
    method: 'POST',
    where: { 'json:type': 'url_verification' },
    echo: 'json:challenge',
    signed: true,
  }),
  discord: {
    methods: ['POST'],
    signed: true,
    answer: (delivery) => (at(delivery, 'json', 'type') === '1' ? json({ type: 1 }) : null),
  },
  meta: echoed({
    method: 'GET',
    where: { 'query:hub.mode': 'subscribe' },
    token: 'query:hub.verify_token',
    echo: 'query:hub.challenge',
  }),
  msgraph: echoed({ method: ['POST', 'GET'], echo: 'query:validationToken' }),
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

function echoed(given: z.input<typeof challengeSchema>): Challenge {
  return echoChallenge(challengeSchema.parse(given));
}

function echoChallenge({ method, where, echo: place, field, token, signed }: EchoChallenge): Challenge {
  return {
    methods: method,
    signed,
    answer: (delivery, secrets) => {
      if (token !== null && !isKnown(textAt(token, delivery, NO_PARTS), secrets)) return null;
      if (!where.every((condition) => isMet(delivery, condition))) return null;
      const text = textAt(place, delivery, NO_PARTS);
      if (text === null || !ECHOED.test(text)) return null;
      return field === null ? { status: 200, contentType: 'text/plain', body: text } : json({ [field]: text });
    },
  };
}

function isMet(delivery: Delivery, { field, patterns }: FieldCondition): boolean {
  const text = textAt(field, delivery, NO_PARTS);
  return text !== null && patterns.some((pattern) => fitsPattern(pattern, text));
}

/** Every secret is looked at, so that the time of an answer does not tell which one was nearly right. */
function isKnown(token: string | null, secrets: readonly WebhookSecret[]): boolean {
  return secrets.filter(({ id, value }) => id === VERIFY_TOKEN_ID && isSame(value, token ?? '')).length > 0;
}

/**
 * The answer to the question by which the scheme's sender tests a new address; null if the request asks nothing, or
 * is not signed though it must be: then it is a delivery like any other.
 */
export function answerChallenge(
  scheme: SignatureScheme,
  delivery: Delivery,
  { verified, secrets, now }: ChallengeFacts,
): ChallengeAnswer | null {
  const challenge = challengeOf(scheme);
  if (challenge === null) return null;
  const { methods, signed, answer } = challenge;
  if (!methods.includes(delivery.method) || (signed && !verified)) return null;
  const active = secrets.filter(({ until = Infinity }) => now <= until);
  return answer(delivery, active);
}

/** Methods besides POST by which the scheme's sender may ask. */
export function challengeMethods(scheme: SignatureScheme): readonly string[] {
  return challengeOf(scheme)?.methods ?? [];
}

function challengeOf({ challenge }: SignatureScheme): Challenge | null {
  if (challenge === null) return null;
  return typeof challenge === 'string' ? CHALLENGES[challenge] : echoChallenge(challenge);
}

function at(delivery: Delivery, from: DeliveryField['from'], name: string): string | null {
  return textAt({ from, name }, delivery, NO_PARTS);
}

function json(value: object): ChallengeAnswer {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}

function isSame(secret: string, given: string): boolean {
  return PROVERS.static(Buffer.from(secret), 'sha256', 'hex')([], [given]);
}
