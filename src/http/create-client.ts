/** Opens the HTTP client of one source (`createClient`). */
import type { Network } from '../config/network.ts';
import type { AuthSettings } from '../config/profile/auth.ts';
import { sincePlaces } from '../config/profile/incremental.ts';
import type { Profile } from '../config/profile/profile.ts';
import { requestedVersion } from '../config/profile/request-fields.ts';
import type { TokenStore } from '../database/coordination.ts';
import type { Clock } from '../model/clock.ts';
import { isSecretName } from '../model/visible-text.ts';
import { createCredentials } from './auth/create-credentials.ts';
import type { KeepSecret } from './auth/credentials.ts';
import type { ShownQuery } from './body/read-body.ts';
import type { ApiClient, AttemptEvent, RetryEvent } from './client.ts';
import { createAgent, createExchange } from './exchange.ts';
import { createJudge } from './outcome/outcome-table.ts';
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
