import { ConfigError, SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Governor } from '../../queue/governor.ts';
import { readAnswerLimits } from '../../queue/limits/answer-limits.ts';
import type { AuthPlan } from '../../source/auth.ts';
import { factsOf } from '../answer-facts.ts';
import type { AnswerMemory } from '../body/answer-memory.ts';
import type { Exchange, WireAnswer, WireRequest } from '../exchange.ts';
import { judgeTokenAnswer } from '../outcome/outcome.ts';

/** Answers with a token are short. */
const MAX_TOKEN_BYTES = 1_048_576;

export interface TokenPlace {
  baseUrl: URL;
  governor: Governor;
  /** Of a token endpoint with an origin of its own; if absent, none holds it back. */
  tokenGovernor?: Governor | undefined;
  memory: AnswerMemory;
  exchange: Exchange;
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
export function tokenUrl(plan: AuthPlan, baseUrl: URL): URL | null {
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

/** A request to the service's own origin takes a slot like any other; another origin has a governor of its own. */
export async function sendForToken(
  { baseUrl, governor, tokenGovernor, memory, exchange }: TokenPlace,
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
  const holder = request.url.origin === baseUrl.origin ? governor : tokenGovernor;
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
