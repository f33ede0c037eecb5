import type { JsonValue } from '../model/json.ts';
import type { AnswerFacts, Attempted } from '../queue/governor.ts';
import { readAnswerLimits, type AnswerLimits } from '../queue/limits/answer-limits.ts';
import type { RateDialect } from '../source/rate-dialect.ts';
import type { AnswerHold } from './body/answer-memory.ts';
import type { Credentials } from './auth/credentials.ts';
import type { ApiRequest, OtherCaller } from './client.ts';
import type { Exchange, WireAnswer, WireRequest } from './exchange.ts';
import { interpret, type BodyBounds, type AnswerReading } from './outcome/interpret.ts';
import type { Seen } from './outcome/outcome-row.ts';
import type { OutcomeVerdict } from './outcome/outcome.ts';
import type { Hop } from './redirect.ts';

/** The use that was made of one slot. */
export type AttemptResult =
  | { kind: 'judged'; verdict: OutcomeVerdict; answer: WireAnswer; reading: AnswerReading; sent: SentCredential }
  | { kind: 'redirect'; answer: WireAnswer }
  /** The credential ran out while waiting for the slot; nothing was sent. */
  | { kind: 'stale_credential' };

/** The `Authorization` that was sent, empty if none was, and until when it held (monotonic milliseconds). */
export interface SentCredential {
  authorization: string;
  holdsUntil: number;
}

/** The parts that all attempts of a client have in common. */
export interface AttemptParts {
  credentials: Credentials;
  exchange: Exchange;
  judge: (seen: Seen) => OutcomeVerdict;
  hasRecords: (body: JsonValue) => boolean;
  bounds: BodyBounds;
  /** Headers for the home origin (the profile's), and those that go anywhere. */
  homeHeaders: Readonly<Record<string, string>>;
  plainHeaders: Readonly<Record<string, string>>;
}

/** The request and its state, as far as one attempt needs them. */
interface AttemptOf {
  request: Pick<ApiRequest, 'method' | 'headers' | 'body' | 'meter' | 'signal' | 'isWanted' | 'as'>;
  hop: Hop;
  hold: AnswerHold;
  /** Send even a credential that is known to have run out: it was renewed for this request already. */
  evenStale: boolean;
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** One attempt, inside its slot: sends, reads and judges. The limits are read here, once, for the judge and the governor. */
export async function attempt(
  parts: AttemptParts,
  { request, hop, hold, evenStale }: AttemptOf,
  dialect: RateDialect,
): Promise<Attempted<AttemptResult>> {
  const { credentials } = parts;
  const { meter, signal, as } = request;
  if (hop.credentialed && !evenStale && !credentials.fresh()) {
    return { result: { kind: 'stale_credential' }, facts: null };
  }
  const sent: SentCredential = hop.credentialed
    ? { authorization: headerAs(as, credentials.header()), holdsUntil: credentials.holdsUntil() }
    : { authorization: '', holdsUntil: Infinity };
  meter.requests += 1;
  // Of an attempt before this one nothing is needed any more.
  hold.resize(0);
  const answer = await parts.exchange(
    { ...wireParts(request), url: hop.url, headers: headersFor(parts, request, hop, sent.authorization), signal },
    { count: (bytes) => (meter.bytes += bytes), hold },
  );
  if (REDIRECTS.has(answer.status)) {
    return {
      result: { kind: 'redirect', answer },
      facts: factsOf(answer, readAnswerLimits(answer, dialect), false),
    };
  }
  const reading = interpret(answer, request.isWanted ?? parts.hasRecords, { ...parts.bounds, hold });
  const limits = readAnswerLimits({ ...answer, body: reading.seen.json }, dialect);
  const verdict = parts.judge({ ...reading.seen, limits });
  // The credential is not renewed because another caller's was refused.
  const own = as === undefined ? sent : { ...sent, authorization: '' };
  return {
    result: { kind: 'judged', verdict, answer, reading, sent: own },
    facts: factsOf(answer, limits, verdict.outcome === 'limited'),
  };
}

/** The governor's part of an answer; null if none came. */
export function factsOf(answer: WireAnswer, limits: AnswerLimits, limited: boolean): AnswerFacts | null {
  const { status, receivedAt, latencyMs } = answer;
  return status === 0 ? null : { status, limits, receivedAt, latencyMs, limited };
}

/** Away from home neither the credential nor the profile's headers go along: either may be a secret. */
function headersFor(
  parts: AttemptParts,
  { headers }: AttemptOf['request'],
  { credentialed }: Hop,
  authorization: string,
): Record<string, string> {
  if (!credentialed) return { ...parts.plainHeaders };
  return { ...parts.homeHeaders, ...headers, ...(authorization === '' ? {} : { authorization }) };
}

function wireParts({ method = 'GET', body }: AttemptOf['request']): Pick<WireRequest, 'method' | 'body'> {
  return body === undefined ? { method } : { method, body };
}

/** A false credential has the form of the own one and nothing of its text, so that it can stand in any message. */
function headerAs(as: OtherCaller | undefined, own: string): string {
  if (as === undefined) return own;
  if (as === 'nobody') return '';
  const token = own.indexOf(' ') + 1;
  return own.slice(0, token) + own.slice(token).replaceAll(/[a-z]/gi, 'x').replaceAll(/\d/g, '0');
}
