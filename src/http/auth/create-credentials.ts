import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Governor } from '../../queue/governor.ts';
import type { AuthSettings } from '../../source/auth.ts';
import type { Profile } from '../../source/profile.ts';
import type { AnswerMemory } from '../body/answer-memory.ts';
import { apiKeyCredentials, type Credentials } from './credentials.ts';
import { readAnswerLimits } from '../../queue/limits/answer-limits.ts';
import { factsOf } from '../attempt.ts';
import { judgeTokenAnswer } from '../outcome/outcome.ts';
import type { Exchange, WireAnswer, WireRequest } from '../exchange.ts';
import { sharedToken, tokenSeal, type TokenStore } from './shared-token.ts';
import { requestToken, type IssuedToken } from './token-request.ts';
import type { OauthSettings } from './grants.ts';
import { unlessAborted } from '../../model/waiting.ts';

/** Answers with a token are short. */
const MAX_TOKEN_BYTES = 1_048_576;

interface CredentialSource {
  baseUrl: URL;
  profile: Pick<Profile, 'oauth'>;
  auth: AuthSettings;
  governor: Governor;
  /** Of a token endpoint with an origin of its own; if absent, none holds it back. */
  tokenGovernor?: Governor | undefined;
  clock: Clock;
  memory: AnswerMemory;
  /** The store of tokens that other processes use too; each client has its own if absent. */
  tokens?: TokenStore | undefined;
}

/** The credential that the settings describe. `keepSecret` is called with every text that must never be written anywhere. */
export function createCredentials(
  source: CredentialSource,
  exchange: Exchange,
  keepSecret: (secret: string) => void,
): Credentials {
  const { auth, clock, tokens } = source;
  if (auth.type === 'api_key') {
    keepSecret(auth.key);
    return apiKeyCredentials(auth.key);
  }
  keepSecret(auth.client_secret);
  const url = tokenUrl(auth, source);
  const request = (lane: Lane): Promise<IssuedToken> =>
    requestToken(auth, {
      url,
      clientAuth: source.profile.oauth.client_auth,
      send: (sent) => sendForToken(source, exchange, lane, sent),
    });
  if (tokens === undefined) return oauthCredentials(clock, request, keepSecret);
  const shared = sharedToken({ store: tokens, seal: tokenSeal(auth, url), clock, request, lifetime: tokenLifetime });
  return oauthCredentials(clock, shared, keepSecret);
}

/** The origin of a token endpoint beside the service, which has limits of its own; null if it is the service's. */
export function otherTokenOrigin(auth: AuthSettings, baseUrl: URL): string | null {
  if (auth.type === 'api_key' || auth.token_url === undefined) return null;
  const { origin } = new URL(auth.token_url, baseUrl);
  return origin === baseUrl.origin ? null : origin;
}

function tokenUrl(auth: OauthSettings, { baseUrl, profile }: CredentialSource): URL {
  const url = new URL(auth.token_url ?? baseUrl.pathname.replace(/\/$/, '') + profile.oauth.token_path, baseUrl);
  if (baseUrl.protocol === 'https:' && url.protocol !== 'https:') {
    throw new ConfigError('insecure_token_url', 'token_url is not https: though base_url is', {
      hint: 'The client secret must not go over an open line.',
    });
  }
  return url;
}

/** A request to the service's own origin takes a slot like any other; another origin has a governor of its own. */
function sendForToken(
  source: CredentialSource,
  exchange: Exchange,
  lane: Lane,
  request: WireRequest,
): Promise<WireAnswer> {
  const sent = async (): Promise<WireAnswer> => {
    const hold = source.memory.open();
    try {
      return await exchange({ ...request, most: MAX_TOKEN_BYTES }, { count: () => undefined, hold });
    } finally {
      hold.release();
    }
  };
  const governor = request.url.origin === source.baseUrl.origin ? source.governor : source.tokenGovernor;
  if (governor === undefined) return sent();
  return governor.run(lane, async (dialect) => {
    const result = await sent();
    const limited = judgeTokenAnswer(result).outcome === 'limited';
    return { result, facts: factsOf(result, readAnswerLimits(result, dialect), limited) };
  });
}

/** The life of a token if the service does not say it (nothing, or 0), and the longest that is believed. */
const DEFAULT_LIFETIME = 3_600_000;
const LONGEST_LIFETIME = 86_400_000;
/** The last part of its life in which a token is renewed ahead of time: a fifth, at most a minute. */
const LEEWAY = 60_000;
/** After a failed renewal, while the old token still holds. */
const QUIET = 5_000;
/** A refused client is not asked about again for this long: it stays refused until a person acts. */
const REFUSED_FOR = 3_600_000;

interface Token {
  value: string;
  /** Monotonic milliseconds from which it is renewed, and from which it no longer holds. */
  renewAt: number;
  expiresAt: number;
}

/**
 * Tokens by client credentials: one request at a time however many ask, renewed ahead of time, and the old one is used
 * as long as it holds while the token endpoint fails. `request` asks the token endpoint, or the store if several
 * processes share a token.
 */
function oauthCredentials(
  clock: Clock,
  request: (lane: Lane) => Promise<IssuedToken>,
  keepSecret: (secret: string) => void,
): Credentials {
  let token: Token | null = null;
  let flight: Promise<void> | null = null;
  let refusal: { error: SyncError; until: number } | null = null;
  let quietUntil = 0;
  const now = (): number => clock.monotonic();
  const holds = (): boolean => token !== null && now() < token.expiresAt;

  async function fetchToken(lane: Lane): Promise<void> {
    if (refusal !== null && now() < refusal.until) throw refusal.error;
    const asked = now();
    try {
      const issued = await request(lane);
      keepSecret(issued.value);
      token = datedToken(issued, asked);
    } catch (error) {
      quietUntil = now() + QUIET;
      if (error instanceof SyncError && REFUSALS.has(error.code)) refusal = { error, until: now() + REFUSED_FOR };
      throw error;
    }
  }
  function renewal(lane: Lane): Promise<void> {
    flight ??= fetchToken(lane).finally(() => (flight = null));
    return flight;
  }

  return {
    async ready(lane, signal) {
      if (!holds()) await unlessAborted(renewal(lane), signal);
      // Ahead of time and beside the requests; a failure shows once the old token has run out.
      else if (token !== null && now() >= Math.max(token.renewAt, quietUntil)) renewal(lane).catch(() => undefined);
    },
    fresh: holds,
    header: () => `Bearer ${token?.value ?? ''}`,
    holdsUntil: () => token?.expiresAt ?? 0,
    renew(refused) {
      if (refused === `Bearer ${token?.value}`) token = null;
      return true;
    },
  };
}

const REFUSALS: ReadonlySet<string> = new Set(['auth_failed', 'bad_token', 'token_redirect']);

function datedToken(issued: IssuedToken, asked: number): Token {
  const life = tokenLifetime(issued);
  return { value: issued.value, renewAt: asked + life - Math.min(LEEWAY, life / 5), expiresAt: asked + life };
}

/** Milliseconds from when it was asked for. */
function tokenLifetime({ expiresIn = 0 }: IssuedToken): number {
  return expiresIn > 0 ? Math.min(expiresIn * 1_000, LONGEST_LIFETIME) : DEFAULT_LIFETIME;
}
