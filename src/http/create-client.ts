// Creates the HTTP client of one source from its profile and settings: one connection pool, one credential, one rate
// limiter. `request-loop.ts` runs its requests.
import type { Network } from '../config/network.ts';
import type { AuthSettings } from '../config/profile/auth.ts';
import { sinceParams } from '../config/profile/incremental.ts';
import type { Profile } from '../config/profile/profile.ts';
import { requestedVersion } from '../config/profile/request-fields.ts';
import type { TokenStore } from '../database/coordination.ts';
import type { Clock } from '../model/clock.ts';
import { isSecretName } from '../model/visible-text.ts';
import { createCredentials } from './auth/create-credentials.ts';
import type { KeepSecret } from './auth/credentials.ts';
import type { QueryVisibility } from './body/read-body.ts';
import type { ApiClient, AttemptEvent, RetryEvent } from './client.ts';
import { createAgent, createExchange } from './exchange.ts';
import { createJudge } from './outcome/outcome-table.ts';
import { createRecordTest } from './outcome/read-answer.ts';
import type { RateLimiter } from './rate-limit/rate-limiter.ts';
import {
  BACKOFF,
  type BackoffLimits,
  type ClientParts,
  PLAIN_HEADERS,
  RetryQuota,
  runRequest,
} from './request-loop.ts';

export interface ClientOptions {
  baseUrl: URL;
  profile: Profile;
  auth: AuthSettings;
  rateLimiter: RateLimiter;
  /** Limits requests to an OAuth token endpoint at another origin. */
  tokenRateLimiter?: RateLimiter | undefined;
  clock: Clock;
  /** Called with every attempt; meant for the log at debug level. */
  log?: ((event: AttemptEvent) => void) | undefined;
  /** Called before the wait of every retry. */
  retried?: ((event: RetryEvent) => void) | undefined;
  /** Proxy, authorities and client certificate of the source's settings. */
  network?: Network | undefined;
  /** Texts that the log masks; the client adds the credential and every token. */
  secrets?: string[] | undefined;
  /** Stores OAuth tokens for all processes. By default each client requests its own. */
  tokens?: TokenStore | undefined;
  backoff?: BackoffLimits | undefined;
}

/** A client with its parts, which the downloader reuses. */
export interface Client extends ApiClient {
  readonly parts: ClientParts;
}

/**
 * Creates the client of one source, with one rate limiter, credential and connection pool. Throws `ConfigError` for a
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
    isRecord: createRecordTest(profile),
    origins: { home: options.baseUrl.origin, allowsOthers: false, secrets },
    quota: new RetryQuota(),
    backoff,
    queryVisibility: queryVisibility(profile, secrets),
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

/** Tokens that stay in the list of secrets; older ones have expired. */
const MAX_ISSUED_SECRETS = 200;

/** Returns a function that adds to the list of secrets. Once there are too many expiring ones, it removes the older half. */
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

/** Headers for the origin of `base_url`, with lower-case names. */
function requestHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const profileHeaders = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...PLAIN_HEADERS,
    // The documentation of the service shows Content-Type even on a request without a body.
    'content-type': 'application/json',
    // A cached response may be older than the requested change.
    'cache-control': 'no-cache',
    ...Object.fromEntries(profileHeaders),
  };
}

/** Query parameters for the page or the time of change, which are useful in a message and hold no secret. */
function positionParams(profile: Profile): Set<string> {
  const resources = Object.values(profile.resources);
  const pageParams = resources
    .flatMap(({ page }) => Object.entries(page))
    .flatMap(([key, value]) => (key.endsWith('_param') && typeof value === 'string' ? [value] : []));
  const timeParams = resources.flatMap(({ incremental }) => (incremental === null ? [] : sinceParams(incremental)));
  return new Set(pageParams.concat(timeParams));
}

/** Decides which query values a message may show. */
function queryVisibility(profile: Profile, secrets: readonly string[]): QueryVisibility {
  const added = Object.values(profile.resources).flatMap(({ query }) => Object.entries(query));
  const isHidden = ([name, value]: [string, string]): boolean => isSecretName(name) || secrets.includes(value);
  const hidden = new Set(added.filter(isHidden).map(([name]) => name));
  const versions = Object.keys(requestedVersion(profile).query);
  const plain = [...added.map(([name]) => name), ...versions].filter((name) => !hidden.has(name));
  return { shown: positionParams(profile).union(new Set(plain)), hidden };
}
