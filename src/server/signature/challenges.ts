// Answers the requests by which a sender tests the address of a webhook.
import { createHmac } from 'node:crypto';
import { challengeSchema, type EchoChallenge } from '../../config/profile/delivery-fields.ts';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import type { WebhookSecret } from '../../config/profile/signature-secret.ts';
import { type Delivery, matchesPattern, NO_PARTS, textAt } from './delivery.ts';
import { secretMatcher, VERIFY_TOKEN_ID } from './signature-methods.ts';

/** The response to a sender that verifies the address. */
export interface ChallengeAnswer {
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

/** Texts that may be sent back: short, without mark-up and line breaks. */
const ECHOED = /^[\w .:;,+/=~-]{1,512}$/;

/** Known challenges that return a value of the request. */
const ECHO_CHALLENGES: Readonly<Record<string, EchoChallenge>> = {
  slack: challengeSchema.parse({
    method: 'POST',
    where: { 'json:type': 'url_verification' },
    echo: 'json:challenge',
    signed: true,
  }),
  meta: challengeSchema.parse({
    method: 'GET',
    where: { 'query:hub.mode': 'subscribe' },
    token: 'query:hub.verify_token',
    echo: 'query:hub.challenge',
  }),
  msgraph: challengeSchema.parse({ method: ['POST', 'GET'], echo: 'query:validationToken' }),
};

/** The challenge of a scheme that returns a value of the request; null if it has none, or another kind. */
export function echoChallenge({ challenge }: SignatureScheme): EchoChallenge | null {
  return typeof challenge === 'string' ? (ECHO_CHALLENGES[challenge] ?? null) : challenge;
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
  const { challenge } = scheme;
  const active = secrets.filter(({ until = Infinity }) => now <= until);
  if (challenge === 'discord') return verified && jsonText(delivery, 'type') === '1' ? json({ type: 1 }) : null;
  if (challenge === 'zoom') return verified ? answerZoom(delivery, active) : null;
  const echo = echoChallenge(scheme);
  if (echo === null || !echo.method.some((method) => method === delivery.method) || (echo.signed && !verified)) {
    return null;
  }
  if (echo.token !== null && !isVerifyToken(textAt(echo.token, delivery, NO_PARTS) ?? '', active)) return null;
  const isChallenge = echo.where.every(({ field, patterns }) => {
    const text = textAt(field, delivery, NO_PARTS);
    return text !== null && patterns.some((pattern) => matchesPattern(pattern, text));
  });
  const text = textAt(echo.echo, delivery, NO_PARTS);
  if (!isChallenge || text === null || !ECHOED.test(text)) return null;
  return echo.field === null ? { contentType: 'text/plain', body: text } : json({ [echo.field]: text });
}

function answerZoom(delivery: Delivery, [secret]: readonly WebhookSecret[]): ChallengeAnswer | null {
  const plainToken = jsonText(delivery, 'payload.plainToken') ?? '';
  const isAsked = jsonText(delivery, 'event') === 'endpoint.url_validation' && ECHOED.test(plainToken);
  if (!isAsked || secret === undefined) return null;
  return json({ plainToken, encryptedToken: createHmac('sha256', secret.value).update(plainToken).digest('hex') });
}

/** Compares all secrets, so that the time of a response does not tell which one was nearly right. */
function isVerifyToken(token: string, secrets: readonly WebhookSecret[]): boolean {
  const tokens = secrets.filter(({ id }) => id === VERIFY_TOKEN_ID);
  return tokens.filter(({ value }) => secretMatcher(Buffer.from(value))([], [token])).length > 0;
}

function jsonText(delivery: Delivery, name: string): string | null {
  return textAt({ from: 'json', name }, delivery, NO_PARTS);
}

function json(value: object): ChallengeAnswer {
  return { contentType: 'application/json', body: JSON.stringify(value) };
}
