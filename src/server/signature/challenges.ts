// Answers the request by which a sender tests a new webhook address before it sends deliveries. Slack, for example, posts
// `{"type": "url_verification", "challenge": "3eZbrw1a"}` and expects `3eZbrw1a` in the response.
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
const SAFE_TEXT = /^[\w .:;,+/=~-]{1,512}$/;

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

/** Returns the challenge of a scheme if its response is a value of the request; null without one, or for another kind. */
export function echoChallenge({ challenge }: SignatureScheme): EchoChallenge | null {
  return typeof challenge === 'string' ? (ECHO_CHALLENGES[challenge] ?? null) : challenge;
}

/**
 * Returns the response to a challenge. Null for any other request, and for a challenge without the signature or token that
 * the scheme requires: those are handled as deliveries.
 */
export function answerChallenge(
  scheme: SignatureScheme,
  delivery: Delivery,
  { verified, secrets, now }: ChallengeFacts,
): ChallengeAnswer | null {
  const { challenge } = scheme;
  const active = secrets.filter(({ until = Infinity }) => now <= until);
  if (challenge === 'discord') return verified && readJson(delivery, 'type') === '1' ? json({ type: 1 }) : null;
  if (challenge === 'zoom') return verified ? answerZoom(delivery, active) : null;
  const echo = echoChallenge(scheme);
  if (echo === null || !echo.method.some((method) => method === delivery.method)) return null;
  if (echo.signed && !verified) return null;
  if (echo.token !== null && !isVerifyToken(textAt(echo.token, delivery, NO_PARTS) ?? '', active)) return null;
  const isChallenge = echo.where.every(({ field, patterns }) => {
    const text = textAt(field, delivery, NO_PARTS);
    return text !== null && patterns.some((pattern) => matchesPattern(pattern, text));
  });
  const text = textAt(echo.echo, delivery, NO_PARTS);
  if (!isChallenge || text === null || !SAFE_TEXT.test(text)) return null;
  return echo.field === null ? { contentType: 'text/plain', body: text } : json({ [echo.field]: text });
}

function answerZoom(delivery: Delivery, [secret]: readonly WebhookSecret[]): ChallengeAnswer | null {
  const plainToken = readJson(delivery, 'payload.plainToken') ?? '';
  const isAsked = readJson(delivery, 'event') === 'endpoint.url_validation' && SAFE_TEXT.test(plainToken);
  if (!isAsked || secret === undefined) return null;
  return json({ plainToken, encryptedToken: createHmac('sha256', secret.value).update(plainToken).digest('hex') });
}

/** Compares with all tokens, so that the time of a response does not tell which one was nearly right. */
function isVerifyToken(sent: string, secrets: readonly WebhookSecret[]): boolean {
  const tokens = secrets.filter(({ id }) => id === VERIFY_TOKEN_ID);
  const equal = tokens.filter(({ value }) => {
    const matches = secretMatcher(Buffer.from(value));
    return matches([], [sent]);
  });
  return equal.length > 0;
}

function readJson(delivery: Delivery, name: string): string | null {
  return textAt({ from: 'json', name }, delivery, NO_PARTS);
}

function json(value: object): ChallengeAnswer {
  return { contentType: 'application/json', body: JSON.stringify(value) };
}
