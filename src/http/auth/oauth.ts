import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { unlessAborted } from '../../model/waiting.ts';
import type { Credentials } from './credentials.ts';
import type { IssuedToken } from './token-request.ts';

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

interface OauthWiring {
  clock: Clock;
  /** One request to the token endpoint, or to the store if several processes share a token. */
  request: (lane: Lane) => Promise<IssuedToken>;
  /** Called with every token, so that none is ever written anywhere. */
  keepSecret: (secret: string) => void;
}

/**
 * Tokens by client credentials: one request at a time however many ask, renewed ahead of time, and the old one is used
 * as long as it holds while the token endpoint fails.
 */
export function oauthCredentials({ clock, request, keepSecret }: OauthWiring): Credentials {
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
export function tokenLifetime({ expiresIn = 0 }: IssuedToken): number {
  return expiresIn > 0 ? Math.min(expiresIn * 1_000, LONGEST_LIFETIME) : DEFAULT_LIFETIME;
}
