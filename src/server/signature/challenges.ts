import { createHmac } from 'node:crypto';
import type { z } from 'zod';
import { challengeSchema, type DeliveryField, type EchoChallenge } from '../../config/profile/basic-fields.ts';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import type { WebhookSecret } from '../../config/profile/signature-secret.ts';
import { type Delivery, matchesPattern, NO_PARTS, textAt } from './delivery.ts';
import { secretMatcher, VERIFY_TOKEN_ID } from './signature-methods.ts';

/** The response to a sender that verifies the address. */
export interface ChallengeAnswer {
  status: 200;
  contentType: 'text/plain' | 'application/json';
  body: string;
}

interface ChallengeFacts {
  /** True if the signature is valid and recent enough. */
  verified: boolean;
  secrets: readonly WebhookSecret[];
  /** Epoch milliseconds. */
  now: number;
}

interface Challenge {
  methods: readonly string[];
  /** Answered only if the signature is valid. */
  signed: boolean;
  answer: (delivery: Delivery, secrets: readonly WebhookSecret[]) => ChallengeAnswer | null;
}

/** Texts that may be sent back: short, without mark-up and line breaks. */
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
      if (token !== null && !isVerifyToken(textAt(token, delivery, NO_PARTS) ?? '', secrets)) return null;
      const isMet = where.every(({ field, patterns }) => {
        const text = textAt(field, delivery, NO_PARTS);
        return text !== null && patterns.some((pattern) => matchesPattern(pattern, text));
      });
      if (!isMet) return null;
      const text = textAt(place, delivery, NO_PARTS);
      if (text === null || !ECHOED.test(text)) return null;
      return field === null ? { status: 200, contentType: 'text/plain', body: text } : json({ [field]: text });
    },
  };
}

/** Compares all secrets, so that the time of a response does not tell which one was nearly right. */
function isVerifyToken(token: string, secrets: readonly WebhookSecret[]): boolean {
  const tokens = secrets.filter(({ id }) => id === VERIFY_TOKEN_ID);
  return tokens.filter(({ value }) => secretMatcher(Buffer.from(value))([], [token])).length > 0;
}

/**
 * Returns the response to the request by which the scheme's sender verifies an address; null if it is none, or is not
 * signed although it must be: then it is handled as a delivery.
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

/** Methods that the scheme's sender may use for it. */
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
