import type { JsonValue } from '../model/json.ts';
import type { Attempted } from '../queue/governor.ts';
import { readAnswerLimits } from '../queue/limits/answer-limits.ts';
import type { RateDialect } from '../source/rate-dialect.ts';
import type { AnswerHold } from './body/answer-memory.ts';
import { type Exchange, factsOf, type WireAnswer, type WireRequest } from './exchange.ts';
import { withAppended } from './query.ts';
import { type Credentials, NO_PROOF, type Proof } from './auth/credentials.ts';
import type { ApiRequest, OtherCaller } from './client.ts';
import { interpret, type BodyBounds, type AnswerReading } from './outcome/interpret.ts';
import type { Seen } from './outcome/outcome-table.ts';
import { declaredVerdict, type OutcomeVerdict } from './outcome/outcome.ts';
import type { Hop } from './redirect.ts';

/** The use that was made of one slot. */
export type AttemptResult =
  | { kind: 'judged'; verdict: OutcomeVerdict; answer: WireAnswer; reading: AnswerReading; sent: SentCredential }
  | { kind: 'redirect'; answer: WireAnswer }
  /** The credential ran out while waiting for the slot; nothing was sent. */
  | { kind: 'stale_credential' };

/** The source's own proof as it was sent, null if none was, and until when it held (monotonic milliseconds). */
export interface SentCredential {
  proof: Proof | null;
  holdsUntil: number;
}

/** The parts that all attempts of a client have in common. */
export interface AttemptParts {
  credentials: Credentials;
  exchange: Exchange;
  judge: (seen: Seen) => OutcomeVerdict;
  isRecord: (body: JsonValue) => boolean;
  bounds: BodyBounds;
  /** Headers for the home origin (the profile's), and those that go anywhere. */
  homeHeaders: Readonly<Record<string, string>>;
  plainHeaders: Readonly<Record<string, string>>;
}

/** The request and its state, as far as one attempt needs them. */
interface AttemptOf {
  request: Pick<ApiRequest, 'method' | 'headers' | 'body' | 'meter' | 'signal' | 'isRecord' | 'as' | 'skips' | 'into'>;
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
  const proof = hop.credentialed ? proofAs(as, credentials) : NO_PROOF;
  // The credential is not renewed because another caller's was refused.
  const isOwn = hop.credentialed && as === undefined;
  const sent: SentCredential = isOwn
    ? { proof, holdsUntil: credentials.holdsUntil() }
    : { proof: null, holdsUntil: Infinity };
  meter.requests += 1;
  // Of an attempt before this one nothing is needed any more.
  hold.resize(0);
  const answer = await parts.exchange(
    // At the last moment: nothing that is stored or written ever sees a credential in the query.
    {
      ...wireParts(request),
      url: withAppended(hop.url, proof.query),
      headers: { ...headersFor(parts, request, hop, proof), ...request.into?.headers() },
      signal,
      into: request.into,
    },
    { count: (bytes) => (meter.bytes += bytes), hold },
  );
  if (REDIRECTS.has(answer.status)) {
    return {
      result: { kind: 'redirect', answer },
      facts: factsOf(answer, readAnswerLimits(answer, dialect), false),
    };
  }
  const { reading, limits, verdict } = judged(parts, request, { answer, hold, dialect });
  if (sent.proof !== null && verdict.outcome === 'ok') credentials.accepted(sent.proof);
  return {
    result: { kind: 'judged', verdict, answer, reading, sent },
    facts: factsOf(answer, limits, verdict.outcome === 'limited'),
  };
}

function judged(
  parts: AttemptParts,
  { isRecord, skips }: AttemptOf['request'],
  { answer, hold, dialect }: { answer: WireAnswer; hold: AnswerHold; dialect: RateDialect },
) {
  const reading = interpret(answer, isRecord ?? parts.isRecord, { ...parts.bounds, hold });
  const limits = readAnswerLimits({ ...answer, body: reading.seen.json }, dialect);
  const seen = { ...reading.seen, limits };
  return { reading, limits, verdict: declaredVerdict(skips, seen) ?? parts.judge(seen) };
}

/** Away from home neither the credential nor the profile's headers go along: either may be a secret. */
function headersFor(
  parts: AttemptParts,
  { headers: own }: AttemptOf['request'],
  { credentialed }: Hop,
  { headers }: Proof,
): Record<string, string> {
  if (!credentialed) return { ...parts.plainHeaders };
  const merged: Record<string, string> = { ...parts.homeHeaders, ...own, ...headers };
  const cookies = [parts.homeHeaders['cookie'], own?.['cookie'], headers['cookie']].filter(
    (text) => text !== undefined,
  );
  if (cookies.length > 1) merged['cookie'] = cookies.join('; ');
  return merged;
}

function wireParts({ method = 'GET', body }: AttemptOf['request']): Pick<WireRequest, 'method' | 'body'> {
  return body === undefined ? { method } : { method, body };
}

function proofAs(as: OtherCaller | undefined, credentials: Credentials): Proof {
  if (as === undefined) return credentials.proof();
  return as === 'nobody' ? NO_PROOF : credentials.falseProof();
}
