import type { Network } from '../config/network.ts';
import type { AuthSettings } from '../config/profile/auth.ts';
import { requestedVersion } from '../config/profile/http-fields.ts';
import { sincePlaces } from '../config/profile/incremental.ts';
import type { HttpProfile, Profile } from '../config/profile/profile.ts';
import type { TokenStore } from '../database/coordination.ts';
import type { Clock } from '../model/clock.ts';
import { isSecretName } from '../model/visible-text.ts';
import { createCredentials } from './auth/create-credentials.ts';
import type { KeepSecret } from './auth/credentials.ts';
import { answerMemory, type AnswerMemory } from './body/answer-memory.ts';
import type { ShownQuery } from './body/safe-text.ts';
import type { ApiClient, AttemptEvent, RetryEvent } from './client.ts';
import { createAgent, createExchange } from './exchange.ts';
import { type AnswerHeaders, createJudge } from './outcome/outcome-table.ts';
import { recordFinder } from './outcome/read-answer.ts';
import type { RateLimiter } from './rate-limit/rate-limiter.ts';
import { BACKOFF, type BackoffLimits, createRetryQuota, type LoopParts, runRequest } from './request-loop.ts';

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
  /** 0 <= x < 1; `Math.random` if absent. */
  random?: (() => number) | undefined;
  backoff?: BackoffLimits | undefined;
  /** The memory for all responses; that of the process if absent. */
  memory?: AnswerMemory | undefined;
}

/** What a client sends requests with, for others that send to the same service. */
export interface ClientParts extends LoopParts {
  http: HttpProfile;
  network: Network | undefined;
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
  const { profile, clock, rateLimiter, memory = answerMemory } = options;
  const secrets = options.secrets ?? [];
  const { network } = options;
  const agent = createAgent(profile.http, network);
  const exchange = createExchange(agent, profile.http, clock);
  const version = requestedVersion(profile);
  const { plainHeaders, homeHeaders } = requestHeaders({ ...profile.headers, ...version.headers });
  const parts: ClientParts = {
    http: profile.http,
    network,
    clock,
    limiterFor: () => rateLimiter,
    exchange,
    plainHeaders,
    homeHeaders,
    memory,
    bounds: { values: profile.http.max_values, digits: profile.http.max_digits },
    memoryWait: profile.http.timeout,
    credentials: createCredentials({ ...options, memory, exchange }, createSecretKeeper(secrets)),
    judge: createJudge(profile.outcomes),
    isRecord: recordFinder(profile),
    origins: {
      home: options.baseUrl.origin,
      allowsOthers: false,
      secrets,
    },
    attempts: profile.http.attempts,
    quota: createRetryQuota(),
    backoff: options.backoff ?? BACKOFF,
    random: options.random ?? Math.random,
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

/** Headers with names in lower case: those for any allowed origin, and those for the home origin. */
function requestHeaders(profile: Readonly<Record<string, string>>) {
  const plainHeaders = { accept: 'application/json', 'user-agent': 'content-sync' };
  // The service's document shows Content-Type on a request without a body.
  const homeHeaders: Record<string, string> = {
    ...plainHeaders,
    'content-type': 'application/json',
    // A cached response may be older than the requested change.
    'cache-control': 'no-cache',
  };
  for (const [name, value] of Object.entries(profile)) homeHeaders[name.toLowerCase()] = value;
  return { plainHeaders, homeHeaders };
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
