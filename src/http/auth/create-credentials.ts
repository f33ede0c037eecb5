// Creates the credential of a source by the auth scheme of its profile (API key, OAuth, JWT, session, ...), and sends
// the requests for tokens that some schemes need, within the rate limits.
import {
  type AuthSettings,
  matchSecrets,
  type SchemeType,
  type SchemeWithSecrets,
  secretsOf,
} from '../../config/profile/auth.ts';
import type { Profile } from '../../config/profile/profile.ts';
import type { TokenStore } from '../../database/coordination.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { MemoryReservation } from '../body/answer-memory.ts';
import { factsOf, type SendRequest, type WireAnswer, type WireRequest } from '../exchange.ts';
import { judgeTokenAnswer } from '../outcome/outcome-table.ts';
import { readAnswerLimits } from '../rate-limit/answer-limits.ts';
import type { RateLimiter } from '../rate-limit/rate-limiter.ts';
import {
  type Credentials,
  fixedCredentials,
  type IssuedToken,
  type KeepSecret,
  NO_CREDENTIAL,
  putInto,
  tokenCredentials,
} from './credentials.ts';
import { jwtCredentials } from './jwt.ts';
import { CLAIM_MS, sharedToken, type TokenRequest, tokenSeal } from './shared-token.ts';
import { assertionMint, logIn, requestToken } from './token-request.ts';

/** The auth of a source, by its profile and its settings. */
interface ConfiguredAuth {
  profile: { auth?: Profile['auth'] };
  auth: AuthSettings;
}

interface CredentialSource extends ConfiguredAuth {
  baseUrl: URL;
  clock: Clock;
  rateLimiter: RateLimiter;
  /** Limits requests to a token endpoint at another origin; without it they are not limited. */
  tokenRateLimiter?: RateLimiter | undefined;
  exchange: SendRequest;
  /** Stores tokens for all processes, and new refresh tokens; by default each client requests its own token. */
  tokens?: TokenStore | undefined;
}

const CREATORS: {
  readonly [T in SchemeType]: (
    plan: SchemeWithSecrets<T>,
    source: CredentialSource,
    keepSecret: KeepSecret,
  ) => Credentials;
} = {
  none: () => fixedCredentials(NO_CREDENTIAL),
  api_key: ({ scheme, secrets }) => fixedCredentials(putInto(scheme, secrets.key)),
  headers: ({ secrets }) => {
    const named = Object.entries(secrets.headers).map(([name, value]) => [name.toLowerCase(), value]);
    return fixedCredentials({ headers: Object.fromEntries(named), query: {} });
  },
  /** RFC 7617, in UTF-8. */
  basic: ({ secrets: { username, password } }, _, keepSecret) => {
    const encoded = Buffer.from(`${username}:${password}`).toString('base64');
    keepSecret(encoded);
    return fixedCredentials(putInto({ in: 'header', prefix: 'Basic' }, encoded));
  },
  bearer: ({ secrets }) => fixedCredentials(putInto({ in: 'header' }, secrets.token)),
  oauth: oauthCredentials,
  jwt: (plan, { clock }, keepSecret) => jwtCredentials(plan, clock, keepSecret),
  session: sessionCredentials,
};

/** Creates the credential from the secrets of the settings, by the scheme of the profile. Throws `ConfigError`. */
export function createCredentials(source: CredentialSource, keepSecret: KeepSecret): Credentials {
  const plan = matchSecrets(source.profile.auth, source.auth);
  if (plan === null) {
    throw new ConfigError('settings_invalid', `the profile has no auth of the type ${source.auth.type}`, {
      hint: 'Set auth in the profile, or type under auth in the settings.',
    });
  }
  for (const secret of secretsOf(source.auth)) keepSecret(secret);
  return createByType(plan.type, plan, source, keepSecret);
}

function createByType<T extends SchemeType>(
  type: T,
  plan: SchemeWithSecrets<T>,
  source: CredentialSource,
  keepSecret: KeepSecret,
): Credentials {
  return CREATORS[type](plan, source, keepSecret);
}

/** Returns the origin of the token endpoint; null if it is the origin of the service. */
export function otherTokenOrigin({ profile, auth, baseUrl }: ConfiguredAuth & { baseUrl: URL }): string | null {
  const plan = matchSecrets(profile.auth, auth);
  const address = plan === null ? null : tokenAddress(plan);
  const origin = address === null ? baseUrl.origin : tokenUrl(address, baseUrl).origin;
  return origin === baseUrl.origin ? null : origin;
}

/** True if each token may come with a new refresh token, which must be stored. */
export function keepsRefreshToken({ profile, auth }: ConfiguredAuth): boolean {
  const plan = matchSecrets(profile.auth, auth);
  return plan?.scheme.type === 'oauth' && plan.scheme.grant === 'refresh_token';
}

/**
 * Timeout of a request that replaces the refresh token: 70 % of the claim. The new token must arrive before another
 * process may take over the request.
 */
const REFRESH_TIMEOUT_MS = CLAIM_MS * 0.7;

type RequestToken = (input: TokenRequest) => Promise<IssuedToken>;

function oauthCredentials(
  plan: SchemeWithSecrets<'oauth'>,
  source: CredentialSource,
  keepSecret: KeepSecret,
): Credentials {
  const { scheme, secrets } = plan;
  const url = tokenUrl(tokenAddress(plan) ?? '', source.baseUrl);
  const usesRefreshToken = scheme.grant === 'refresh_token';
  if (usesRefreshToken && source.tokens === undefined) {
    throw new ConfigError('settings_invalid', 'there is no place to keep the refresh tokens that the service gives', {
      hint: 'Name a warehouse that this user may write to: each new refresh token is kept there.',
    });
  }
  // Throws now if the key cannot sign.
  if (scheme.grant === 'jwt_bearer') assertionMint(plan, url);
  const request: RequestToken = async (input) => {
    const refreshToken = input.refreshToken ?? secrets.refresh_token ?? null;
    if (refreshToken !== null) keepSecret(refreshToken, true);
    const { lane, isStillMine } = input;
    const sending = usesRefreshToken ? { lane, isStillMine, timeoutMs: REFRESH_TIMEOUT_MS } : { lane };
    const send = (sent: WireRequest): Promise<WireAnswer> => sendForToken(source, sent, sending);
    const issued = await requestToken(plan, { url, refreshToken, now: source.clock.now(), send });
    if (issued.refreshToken !== undefined) keepSecret(issued.refreshToken, true);
    return issued;
  };
  // The encryption key and the name of the stored token are derived from this secret. Without one, no token is stored.
  const secret = [secrets.refresh_token, secrets.client_secret, secrets.password, secrets.key].find(Boolean) ?? '';
  const identity = [url.href, secrets.client_id ?? null, secrets.scope ?? null];
  const requestShared = withTokenStore(source, url.origin, secret, identity, request);
  return tokenCredentials({ clock: source.clock, carrier: scheme, keepSecret, request: requestShared });
}

function sessionCredentials(
  plan: SchemeWithSecrets<'session'>,
  source: CredentialSource,
  keepSecret: KeepSecret,
): Credentials {
  const { scheme, secrets } = plan;
  const { clock } = source;
  const url = tokenUrl(scheme.login.path, source.baseUrl);
  const request: RequestToken = ({ lane }) =>
    logIn(plan, { url, now: clock.now(), send: (sent) => sendForToken(source, sent, { lane }) });
  const { username = null, password, key } = secrets;
  const [, cookie] = /^cookie:(.+)$/.exec(scheme.token) ?? [];
  const carrier = { ...scheme, name: scheme.name ?? (scheme.in === 'cookie' ? cookie : undefined) };
  const requestShared = withTokenStore(source, url.origin, password ?? key ?? '', [url.href, username], request);
  return tokenCredentials({ clock, carrier, keepSecret, request: requestShared });
}

/**
 * Gets tokens from the store if there is one, else from the service. Tokens are stored per `identity`: endpoint, client
 * and scope (or user).
 */
function withTokenStore(
  { tokens, clock }: CredentialSource,
  origin: string,
  secret: string,
  identity: readonly (string | null)[],
  request: RequestToken,
): (lane: Lane) => Promise<IssuedToken> {
  if (tokens === undefined || secret === '') return (lane) => request({ lane, refreshToken: null });
  return sharedToken({ store: tokens, seal: tokenSeal(origin, secret, identity), clock, request });
}

/** Returns the URL of the token endpoint, or its path below the base URL; null for a scheme without one. */
function tokenAddress({ scheme, secrets }: SchemeWithSecrets): string | null {
  if (scheme.type === 'session') return scheme.login.path;
  if (scheme.type !== 'oauth') return null;
  const configured = secrets.type === 'oauth' ? secrets.token_url : undefined;
  return configured ?? scheme.token_url ?? scheme.token_path ?? '/oauth/token';
}

/** Resolves the address of the token endpoint; throws `ConfigError` if the secret would be sent unencrypted. */
function tokenUrl(address: string, baseUrl: URL): URL {
  const url = new URL(address.startsWith('/') ? baseUrl.pathname.replace(/\/$/, '') + address : address, baseUrl);
  if (baseUrl.protocol === 'https:' && url.protocol !== 'https:') {
    throw new ConfigError('bad_token', 'token_url is not https: though base_url is', {
      hint: 'Use an https URL: the client secret would be sent unencrypted.',
    });
  }
  return url;
}

const MAX_TOKEN_BYTES = 1_048_576;

interface TokenSending {
  lane: Lane;
  /** Called just before sending; returns false if another process has taken over. */
  isStillMine?: (() => Promise<boolean>) | undefined;
  /** Timeout in milliseconds; default: that of the profile. */
  timeoutMs?: number | undefined;
}

/** Sends a token request within the rate limit of its origin. */
async function sendForToken(
  { baseUrl, rateLimiter, tokenRateLimiter, exchange }: CredentialSource,
  request: WireRequest,
  { lane, isStillMine, timeoutMs }: TokenSending,
): Promise<WireAnswer> {
  const send = async (): Promise<WireAnswer> => {
    if (isStillMine !== undefined && !(await isStillMine())) {
      throw unavailable(
        'another process is requesting the token',
        'No action needed: this process uses that token when it arrives.',
      );
    }
    const reservation = new MemoryReservation();
    const signal = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    try {
      return await exchange({ ...request, maxBytes: MAX_TOKEN_BYTES, signal }, { count: () => undefined, reservation });
    } catch (error) {
      if (signal?.aborted !== true) throw error;
      const hint = 'Requests need a token. Check that the token endpoint responds.';
      throw unavailable(`${request.url.origin} gave no token in time`, hint);
    } finally {
      reservation.release();
    }
  };
  const limiter = request.url.origin === baseUrl.origin ? rateLimiter : tokenRateLimiter;
  if (limiter === undefined) return send();
  return limiter.run(lane, async (dialect) => {
    const result = await send();
    const limited = judgeTokenAnswer(result).outcome === 'limited';
    return { result, facts: factsOf(result, readAnswerLimits(result, dialect), limited) };
  });
}

function unavailable(message: string, hint: string): SyncError {
  return new SyncError('unreachable', message, { recovery: 'retry', hint });
}
