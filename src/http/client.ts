/** The HTTP client of one source: what a request and its answer are, and `createClient`, which opens it. */
import type { Network } from '../config/network.ts';
import type { AuthSettings } from '../config/profile/auth.ts';
import { type AnswerRule, requestedVersion } from '../config/profile/http-fields.ts';
import { sincePlaces } from '../config/profile/incremental.ts';
import type { Profile } from '../config/profile/profile.ts';
import type { TokenStore } from '../database/coordination.ts';
import type { AnswerAge } from '../model/answer-age.ts';
import type { Clock } from '../model/clock.ts';
import type { JsonValue } from '../model/json.ts';
import { isSecretName } from '../model/visible-text.ts';
import type { Lane, Outcome } from '../model/vocabulary.ts';
import { createCredentials } from './auth/create-credentials.ts';
import type { KeepSecret } from './auth/credentials.ts';
import type { AnswerHold } from './body/answer-memory.ts';
import type { BodySink } from './body/read-body.ts';
import type { ShownQuery } from './body/safe-text.ts';
import { createAgent, createExchange } from './exchange.ts';
import { type AnswerHeaders, createJudge } from './outcome/outcome-table.ts';
import { recordFinder } from './outcome/read-answer.ts';
import type { RateLimiter } from './rate-limit/rate-limiter.ts';
import {
  BACKOFF,
  type BackoffLimits,
  type ClientParts,
  createRetryQuota,
  PLAIN_HEADERS,
  runRequest,
} from './request-loop.ts';

/** Counters that a caller hands in and reads afterwards, also when the request fails. */
export interface RequestMeter {
  /** Attempts sent, retries included. */
  requests: number;
  retries: number;
  /** Answers that said "too many requests". */
  limited: number;
  /** Bytes of answers as received, before decompression. */
  bytes: number;
  /** Attempts that were judged, by their outcome. */
  outcomes: Partial<Record<Outcome, number>>;
}

/** All at zero. */
export function newMeter(): RequestMeter {
  return { requests: 0, retries: 0, limited: 0, bytes: 0, outcomes: {} };
}

/** The figures of a meter that are sums of all outcomes. */
export function countsOf({ requests, retries, limited, bytes }: RequestMeter): Omit<RequestMeter, 'outcomes'> {
  return { requests, retries, limited, bytes };
}

/** A caller in place of the source's own: without any credential, or with a false one of the same form. */
export type OtherCaller = 'nobody' | 'stranger';

export type HttpMethod = 'GET' | 'POST' | 'PUT';

export interface ApiRequest {
  url: URL;
  /** GET if absent. A POST is a read as well: it is tried again like any other. */
  method?: HttpMethod | undefined;
  /** Headers besides those of the profile, names in lower case. They are only sent to the home origin. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** JSON. */
  body?: string | undefined;
  lane: Lane;
  meter: RequestMeter;
  signal?: AbortSignal | undefined;
  /** Absent: the source's own credential is sent. */
  as?: OtherCaller | undefined;
  /** `skip`: a 404 or 410 is an answer (outcome `skip`), not an error. */
  missing?: 'skip' | undefined;
  /** True for a response that says that the record does not exist: it has the outcome `skip` and is no error. */
  isGone?: ((answer: { status: number; json: JsonValue | undefined }) => boolean) | undefined;
  /** Answers that are none of an error (outcome `skip`, code `declared`), whatever the outcome table says of them. */
  skips?: AnswerRule | undefined;
  /** True for a body that is a record itself: a field `error` is one of its own. By the profile's resources if absent. */
  isRecord?: ((body: JsonValue) => boolean) | undefined;
  /** The memory that the answer takes, to be released by the caller; if absent it counts until the answer is there. */
  hold?: AnswerHold | undefined;
  /** Takes the body of a 2xx in place of memory; the answer has none then. */
  into?: BodySink | undefined;
  /** `fail`: if there is no memory for the answer, it is not waited for (`memory_full`). */
  whenFull?: 'fail' | undefined;
}

/** One answer whose outcome is `ok`, or `skip`, with a `json` of null. */
export interface ApiAnswer {
  outcome: 'ok' | 'skip';
  /** Why; `declared` if the request itself says so. */
  code: string;
  url: URL;
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The decoded body as UTF-8; `json` is parsed from exactly these bytes. */
  bytes: Buffer;
  json: JsonValue;
  /**
   * Local epoch milliseconds from which on the answer was made: just before the successful attempt was sent, or, out of
   * a cache, so much sooner as that says.
   */
  requestedAt: number;
  age: AnswerAge;
  /** The response's own `Date` as epoch milliseconds; null if it is absent or implausible. */
  serverDate: number | null;
  /** Query parameters that hold the credential: a link of the answer may echo them, and no position has them. */
  withheld?: readonly string[] | undefined;
}

/** One request, done properly: auth, slot, outcome, retries, redirects, limits. */
export interface ApiClient {
  get(request: ApiRequest): Promise<ApiAnswer>;
  /** Forgets that a credential was refused, because an operator has fixed it. */
  retry(): void;
  close(): Promise<void>;
}

/** A failed attempt that is retried after a wait, for the log and live progress. */
export interface RetryEvent {
  method: HttpMethod;
  url: string;
  /** Null if no answer came. */
  status: number | null;
  code: string;
  /** Which retry of the request this is, from 1, and how many there may be. */
  retry: number;
  of: number;
  wait_ms: number;
  /** Why the attempt failed, in a few words: `ECONNREFUSED`, `answered 503`. */
  reason: string;
  request_id: string | null;
}

/** `retry 3 of 5 in 4 s: ECONNREFUSED`. */
export function retryText({ retry, of, wait_ms, reason }: RetryEvent): string {
  return `retry ${retry} of ${of} in ${Math.round(wait_ms / 100) / 10} s: ${reason}`;
}

/** One attempt, for the log; `status` is null if no answer came. */
export interface AttemptEvent {
  msg: 'request';
  method: HttpMethod;
  url: string;
  status: number | null;
  outcome: Outcome;
  code: string;
  attempt: number;
  latency_ms: number;
  request_id: string | null;
}

export interface ClientOptions {
  baseUrl: URL;
  profile: Profile;
  auth: AuthSettings;
  rateLimiter: RateLimiter;
  /** Of an OAuth token endpoint with an origin of its own. */
  tokenRateLimiter?: RateLimiter | undefined;
  clock: Clock;
  /** Called with every attempt; meant for the log at debug level. */
  log?: ((event: AttemptEvent) => void) | undefined;
  /** Called before the wait of every retry. */
  retried?: ((event: RetryEvent) => void) | undefined;
  /** Called with every answer of the service itself: with its headers and the address that was asked. */
  answered?: ((headers: AnswerHeaders, url: URL) => void) | undefined;
  /** Proxy, authorities and client certificate of the source's settings. */
  network?: Network | undefined;
  /** The log's list of texts that must never be written: the credential and every token are added to it. */
  secrets?: string[] | undefined;
  /** The store of OAuth tokens that other processes use too; the client has its own if absent. */
  tokens?: TokenStore | undefined;
  backoff?: BackoffLimits | undefined;
}

/** A client, and what it is made of. */
export interface Client extends ApiClient {
  readonly parts: ClientParts;
}

/**
 * The client of one source: one rate limiter, one credential, one pool of connections. Throws `ConfigError` for a
 * credential that cannot be used.
 */
export function createClient(options: ClientOptions): Client {
  const { profile, clock, rateLimiter, network, backoff = BACKOFF } = options;
  const secrets = options.secrets ?? [];
  const agent = createAgent(profile.http, network);
  const exchange = createExchange(agent, profile.http, clock);
  const version = requestedVersion(profile);
  const parts: ClientParts = {
    http: profile.http,
    network,
    clock,
    limiterFor: () => rateLimiter,
    exchange,
    homeHeaders: requestHeaders({ ...profile.headers, ...version.headers }),
    credentials: createCredentials({ ...options, exchange }, createSecretKeeper(secrets)),
    judge: createJudge(profile.outcomes),
    isRecord: recordFinder(profile),
    origins: { home: options.baseUrl.origin, allowsOthers: false, secrets },
    quota: createRetryQuota(),
    backoff,
    shownQuery: shownQuery(profile, secrets),
    version,
    answered: options.answered,
    log: options.log,
    retried: options.retried,
  };
  return {
    parts,
    get: (request) => runRequest(parts, request),
    retry: () => parts.credentials.retry(),
    close: () => agent.destroy(),
  };
}

/** Tokens that are remembered as secrets: those before have run out. */
const MAX_ISSUED_SECRETS = 200;

/** Adds texts to the list of secrets, each once; of those that expire the older half goes when they become many. */
function createSecretKeeper(secrets: string[]): KeepSecret {
  const expiring: string[] = [];
  return (secret, expires = false) => {
    if (secrets.includes(secret)) return;
    secrets.push(secret);
    if (!expires || expiring.push(secret) <= MAX_ISSUED_SECRETS) return;
    const ended = new Set(expiring.splice(0, MAX_ISSUED_SECRETS / 2));
    secrets.splice(0, secrets.length, ...secrets.filter((text) => !ended.has(text)));
  };
}

/** Headers for the home origin, with names in lower case. */
function requestHeaders(profile: Readonly<Record<string, string>>): Record<string, string> {
  const own = Object.entries(profile).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...PLAIN_HEADERS,
    // The service's document shows Content-Type on a request without a body.
    'content-type': 'application/json',
    // A cached response may be older than the requested change.
    'cache-control': 'no-cache',
    ...Object.fromEntries(own),
  };
}

/** Parameters that say which page or since when: they help in a message and hold no secret. */
function positionParams(profile: Profile): Set<string> {
  const resources = Object.values(profile.resources);
  const pageParams = resources
    .flatMap(({ page }) => Object.entries(page))
    .flatMap(([key, value]) => (key.endsWith('_param') && typeof value === 'string' ? [value] : []));
  const sinceParams = resources.flatMap(({ incremental }) => (incremental === null ? [] : sincePlaces(incremental)));
  return new Set(pageParams.concat(sinceParams));
}

function shownQuery(profile: Profile, secrets: readonly string[]): ShownQuery {
  const added = Object.values(profile.resources).flatMap(({ query }) => Object.entries(query));
  const isHidden = ([name, value]: [string, string]): boolean => isSecretName(name) || secrets.includes(value);
  const hidden = new Set(added.filter(isHidden).map(([name]) => name));
  const versions = Object.keys(requestedVersion(profile).query);
  const plain = [...added.map(([name]) => name), ...versions].filter((name) => !hidden.has(name));
  return { shown: positionParams(profile).union(new Set(plain)), hidden };
}
