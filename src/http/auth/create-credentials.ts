import {
  authPlan,
  type AuthPlan,
  type AuthSettings,
  type Carrier,
  type PlanOf,
  type SchemeType,
  secretsOf,
} from '../../config/profile/auth.ts';
import type { Profile } from '../../config/profile/profile.ts';
import type { TokenStore } from '../../database/coordination.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { AnswerMemory } from '../body/answer-memory.ts';
import { type SendRequest, factsOf, type WireAnswer, type WireRequest } from '../exchange.ts';
import { judgeTokenAnswer } from '../outcome/outcome-table.ts';
import type { RateLimiter } from '../rate-limit/rate-limiter.ts';
import { readAnswerLimits } from '../rate-limit/answer-limits.ts';
import { jwtCredentials } from './jwt.ts';
import { logIn } from './session-login.ts';
import { CLAIM_MS, sharedToken, type TokenOccasion, tokenSeal } from './shared-token.ts';
import {
  basicCredentials,
  type Credentials,
  fixedCredentials,
  headerCredentials,
  type IssuedToken,
  keyCredentials,
  NO_CREDENTIAL,
  tokenCredentials,
  tokenLifetime,
} from './credentials.ts';
import { assertionMint, refreshRefused, requestToken } from './token-request.ts';

/** The auth of a source, by its profile and its settings. */
interface ConfiguredAuth {
  profile: { auth?: Profile['auth'] };
  auth: AuthSettings;
}

interface CredentialSource extends TokenTransport, ConfiguredAuth {
  clock: Clock;
  /** The store of tokens that other processes use too, and that holds new refresh tokens; each client has its own if absent. */
  tokens?: TokenStore | undefined;
}

/** Takes texts that must never be written anywhere: those of the settings, and those that run out. */
export interface SecretKeeper {
  forGood: (secret: string) => void;
  forAWhile: (secret: string) => void;
}

const BEARER = { in: 'header' } as const;

/** How each scheme is putInto out. */
const MAKERS: {
  readonly [T in SchemeType]: (plan: PlanOf<T>, source: CredentialSource, keeper: SecretKeeper) => Credentials;
} = {
  none: () => fixedCredentials(NO_CREDENTIAL, NO_CREDENTIAL),
  api_key: ({ scheme, secrets }) => keyCredentials(scheme, secrets.key),
  headers: ({ secrets }) => headerCredentials(secrets.headers),
  basic: ({ secrets }, _, keeper) => basicCredentials(secrets, keeper.forGood),
  bearer: ({ secrets }) => keyCredentials(BEARER, secrets.token),
  oauth: oauthCredentials,
  jwt: (plan, { clock }, keeper) => jwtCredentials(plan, clock, keeper),
  session: sessionCredentials,
};

/**
 * The credential that the settings describe, by the profile's scheme. Throws `ConfigError`.
 */
export function createCredentials(source: CredentialSource, keeper: SecretKeeper): Credentials {
  const plan = authPlan(source.profile.auth, source.auth);
  if (plan === null) {
    throw new ConfigError('config_invalid', `the profile has no auth of the type ${source.auth.type}`, {
      hint: 'Set auth in the profile, or type under auth in the settings.',
    });
  }
  for (const secret of secretsOf(source.auth)) keeper.forGood(secret);
  return made(plan.type, plan, source, keeper);
}

function made<T extends SchemeType>(
  type: T,
  plan: PlanOf<T>,
  source: CredentialSource,
  keeper: SecretKeeper,
): Credentials {
  return MAKERS[type](plan, source, keeper);
}

/** The origin of a token endpoint with limits of its own; null if it is the origin of the service. */
export function otherTokenOrigin({ profile, auth, baseUrl }: ConfiguredAuth & { baseUrl: URL }) {
  const plan = authPlan(profile.auth, auth);
  const origin = plan === null ? undefined : tokenUrl(plan, baseUrl)?.origin;
  return origin === undefined || origin === baseUrl.origin ? null : origin;
}

/** True if a new refresh token may come with each token, which must be kept for the next one. */
export function keepsRefreshToken({ profile, auth }: ConfiguredAuth): boolean {
  const plan = authPlan(profile.auth, auth);
  return plan?.scheme.type === 'oauth' && plan.scheme.grant === 'refresh_token';
}

/** A replacing token must arrive before another process may take over the request for it. */
const REPLACED_WITHIN = CLAIM_MS * 0.7;

function oauthCredentials(plan: PlanOf<'oauth'>, source: CredentialSource, keeper: SecretKeeper): Credentials {
  const { scheme, secrets } = plan;
  const url = urlFor(plan, source);
  const rotates = scheme.grant === 'refresh_token';
  if (rotates && source.tokens === undefined) throw nowhereToKeep();
  // A key that cannot sign is reported at the start.
  if (scheme.grant === 'jwt_bearer') assertionMint(plan, url);
  const request = async ({ lane, refreshToken, isStillMine }: TokenRequestOptions): Promise<IssuedToken> => {
    const used = refreshToken ?? secrets.refresh_token ?? null;
    if (used !== null) keeper.forAWhile(used);
    const sending = rotates ? { lane, isStillMine, within: REPLACED_WITHIN } : { lane };
    const issued = await requestToken(plan, {
      url,
      refreshToken: used,
      now: source.clock.now(),
      clientAuth: scheme.client_auth ?? 'body',
      send: (sent) => sendForToken(source, sent, sending),
    });
    if (issued.refreshToken !== undefined) keeper.forAWhile(issued.refreshToken);
    return issued;
  };
  const secret = [secrets.refresh_token, secrets.client_secret, secrets.password, secrets.key].find(Boolean) ?? '';
  const about = [url.href, secrets.client_id ?? null, secrets.scope ?? null];
  const refusal = rotates ? () => refreshRefused(url) : undefined;
  return askedForTokens(source, keeper, { url, secret, about, request, refusal, carrier: scheme });
}

function sessionCredentials(plan: PlanOf<'session'>, source: CredentialSource, keeper: SecretKeeper): Credentials {
  const { scheme, secrets } = plan;
  const url = urlFor(plan, source);
  const request = ({ lane }: TokenRequestOptions): Promise<IssuedToken> =>
    logIn(plan, { url, now: source.clock.now(), send: (sent) => sendForToken(source, sent, { lane }) });
  const { username = null, password, key } = secrets;
  const [, cookie] = /^cookie:(.+)$/.exec(scheme.token) ?? [];
  const carrier = { ...scheme, name: scheme.name ?? (scheme.in === 'cookie' ? cookie : undefined) };
  const asking = { url, secret: password ?? key ?? '', about: [url.href, username], request };
  return askedForTokens(source, keeper, { ...asking, carrier });
}

function urlFor(plan: AuthPlan, { baseUrl }: CredentialSource): URL {
  const url = tokenUrl(plan, baseUrl);
  if (url === null) throw new Error(`${plan.type} has no address for tokens`);
  return url;
}

/** As with a store, whose fields are absent without one. */
type TokenRequestOptions = Pick<TokenOccasion, 'lane' | 'refreshToken'> & Partial<TokenOccasion>;

interface Asking {
  carrier: Carrier;
  url: URL;
  secret: string;
  about: readonly (string | null)[];
  request: (occasion: TokenRequestOptions) => Promise<IssuedToken>;
  refusal?: Parameters<typeof sharedToken>[0]['refusal'];
}

/** Tokens that expire; they come from the store if there is one, else from the service. */
function askedForTokens({ tokens, clock }: CredentialSource, keeper: SecretKeeper, asking: Asking): Credentials {
  const { carrier, url, secret, about, request, refusal } = asking;
  const parts = { clock, carrier, keepSecret: keeper.forAWhile };
  if (tokens === undefined || secret === '') {
    return tokenCredentials({ ...parts, request: (lane) => request({ lane, refreshToken: null }) });
  }
  const seal = tokenSeal(url.origin, secret, about);
  const shared = { store: tokens, seal, clock, request, lifetime: tokenLifetime, refusal };
  return tokenCredentials({ ...parts, request: sharedToken(shared) });
}

function nowhereToKeep(): ConfigError {
  return new ConfigError('no_token_store', 'there is no place to keep the refresh tokens that the service gives', {
    hint: 'Name a warehouse that this user may write to: each new refresh token is kept there.',
  });
}

/** Answers with a token are short. */
const MAX_TOKEN_BYTES = 1_048_576;

interface TokenTransport {
  baseUrl: URL;
  rateLimiter: RateLimiter;
  /** Of a token endpoint with an origin of its own; if absent, none holds it back. */
  tokenRateLimiter?: RateLimiter | undefined;
  memory: AnswerMemory;
  exchange: SendRequest;
}

/** When a request for a token is sent, and how long its answer is waited for. */
interface Sending {
  lane: Lane;
  /** Called in the slot; false if it must not be sent any more. */
  isStillMine?: (() => Promise<boolean>) | undefined;
  /** Milliseconds; the profile's timeout if absent. */
  within?: number | undefined;
}

/** The address that tokens come from; null for a scheme without one. Throws `ConfigError` for an open line. */
function tokenUrl(plan: AuthPlan, baseUrl: URL): URL | null {
  const given = tokenAddress(plan);
  if (given === null) return null;
  const url = new URL(given.startsWith('/') ? baseUrl.pathname.replace(/\/$/, '') + given : given, baseUrl);
  if (baseUrl.protocol === 'https:' && url.protocol !== 'https:') {
    throw new ConfigError('insecure_token_url', 'token_url is not https: though base_url is', {
      hint: 'The client secret must not go over an open line.',
    });
  }
  return url;
}

/** A whole URL, or a path below the base URL. */
function tokenAddress({ scheme, secrets }: AuthPlan): string | null {
  if (scheme.type === 'session') return scheme.login.path;
  if (scheme.type !== 'oauth') return null;
  const told = secrets.type === 'oauth' ? secrets.token_url : undefined;
  return told ?? scheme.token_url ?? scheme.token_path ?? '/oauth/token';
}

/** A request to the service's own origin takes a slot like any other; another origin has a rate limiter of its own. */
async function sendForToken(
  { baseUrl, rateLimiter, tokenRateLimiter, memory, exchange }: TokenTransport,
  request: WireRequest,
  { lane, isStillMine, within }: Sending,
): Promise<WireAnswer> {
  const sent = async (): Promise<WireAnswer> => {
    if (isStillMine !== undefined && !(await isStillMine())) throw overtaken();
    const hold = memory.open();
    const signal = within === undefined ? undefined : AbortSignal.timeout(within);
    try {
      return await exchange({ ...request, most: MAX_TOKEN_BYTES, signal }, { count: () => undefined, hold });
    } catch (error) {
      throw signal?.aborted === true ? late(request.url) : error;
    } finally {
      hold.release();
    }
  };
  const holder = request.url.origin === baseUrl.origin ? rateLimiter : tokenRateLimiter;
  if (holder === undefined) return sent();
  return holder.run(lane, async (dialect) => {
    const result = await sent();
    const limited = judgeTokenAnswer(result).outcome === 'limited';
    return { result, facts: factsOf(result, readAnswerLimits(result, dialect), limited) };
  });
}

function overtaken(): SyncError {
  return new SyncError('token_unavailable', 'another process asks for the token', {
    recovery: 'retry',
    hint: 'Nothing is wrong: its token is used once it is there.',
  });
}

function late({ origin }: URL): SyncError {
  return new SyncError('token_unavailable', `${origin} gave no token in time`, {
    recovery: 'retry',
    hint: 'Nothing can be read without one. See whether the token endpoint answers.',
  });
}
