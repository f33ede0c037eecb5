import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Governor } from '../../queue/governor.ts';
import type { AuthSettings } from '../../source/auth.ts';
import type { Profile } from '../../source/profile.ts';
import type { AnswerMemory } from '../body/answer-memory.ts';
import { apiKeyCredentials } from './credentials.ts';
import type { Credentials } from './credentials.ts';
import { readAnswerLimits } from '../../queue/limits/answer-limits.ts';
import { factsOf } from '../attempt.ts';
import { judgeTokenAnswer } from '../outcome/outcome.ts';
import type { Exchange, WireAnswer, WireRequest } from '../exchange.ts';
import { oauthCredentials, tokenLifetime } from './oauth.ts';
import { sharedToken, tokenSeal, type TokenStore } from './shared-token.ts';
import { requestToken } from './token-request.ts';
import type { OauthSettings } from './grants.ts';
import type { IssuedToken } from './token-request.ts';

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
  if (tokens === undefined) return oauthCredentials({ clock, keepSecret, request });
  const shared = sharedToken({ store: tokens, seal: tokenSeal(auth, url), clock, request, lifetime: tokenLifetime });
  return oauthCredentials({ clock, keepSecret, request: shared });
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
