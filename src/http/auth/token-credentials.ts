import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { unlessAborted } from '../../model/waiting.ts';
import type { Carrier } from '../../config/profile/auth.ts';
import { carried, type Credentials, falsified, NO_PROOF, type Proof, queryNamesOf } from './credentials.ts';
import type { IssuedToken } from './token-request.ts';

/** The life of a token if the service does not say it (nothing, or 0), and the longest that is believed. */
const DEFAULT_LIFETIME = 3_600_000;
const LONGEST_LIFETIME = 86_400_000;
/** The last part of its life in which a token is renewed ahead of time: a fifth, at most a minute. */
const LEEWAY = 60_000;
/** The very last part, in which a request waits for the next one rather than go out with it: a tenth, at most a second. */
const LAST_MOMENT = 1_000;
/** After a failed renewal, while the old token still holds. */
const QUIET = 5_000;
/** A refused client is not asked about again for this long: it stays refused until a person acts. */
const REFUSED_FOR = 3_600_000;
/** Tokens up to this life may be over when they arrive: services count their lives in whole seconds. */
const SHORT_LIFE = 60_000;

interface Token {
  value: string;
  proof: Proof;
  /** What the service said it holds, in milliseconds from `askedAt`. */
  life: number;
  /** Monotonic milliseconds. */
  askedAt: number;
  renewAt: number;
  useUntil: number;
  expiresAt: number;
  /** True once the service took it. */
  isProven: boolean;
}

interface TokenSource {
  clock: Clock;
  carrier: Carrier;
  /** Asks the service, or the store if several processes share a token. */
  request: (lane: Lane, isRetry: boolean) => Promise<IssuedToken>;
  keepSecret: (secret: string) => void;
}

/**
 * Tokens that run out: one request at a time however many ask, renewed ahead of time, and the old one is used as long as
 * it holds while the service gives no other.
 */
export function tokenCredentials({ clock, carrier, request, keepSecret }: TokenSource): Credentials {
  let token: Token | null = null;
  let flight: Promise<void> | null = null;
  let refusal: { error: SyncError; until: number } | null = null;
  let isRetry = false;
  let quietUntil = 0;
  let shortfall = 0;
  const now = (): number => clock.monotonic();
  const holds = (): boolean => token !== null && now() < token.expiresAt;
  const isUsable = (): boolean => holds() && (now() < (token?.useUntil ?? 0) || now() < quietUntil);

  async function fetchToken(lane: Lane): Promise<void> {
    if (refusal !== null && now() < refusal.until) throw refusal.error;
    const askedAt = now();
    try {
      const issued = await request(lane, isRetry);
      isRetry = false;
      keepSecret(issued.value);
      token = datedToken(issued, { askedAt, shortfall, proof: carried(carrier, issued.value) });
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
      if (!holds()) return unlessAborted(renewal(lane), signal);
      // Ahead of time and beside the requests; a failure shows once the old token has run out.
      if (token !== null && now() >= Math.max(token.renewAt, quietUntil)) renewal(lane).catch(() => undefined);
      if (!isUsable() && flight !== null)
        await unlessAborted(
          flight.catch(() => undefined),
          signal,
        );
    },
    fresh: isUsable,
    proof: () => token?.proof ?? NO_PROOF,
    falseProof: () => carried(carrier, falsified(token?.value ?? 'none')),
    queryNames: queryNamesOf(carrier),
    holdsUntil: () => token?.expiresAt ?? 0,
    accepted(proof) {
      if (token?.proof === proof) token.isProven = true;
    },
    retry: () => void ([token, refusal, isRetry] = [null, null, true]),
    renew(refused, wasRenewed) {
      if (token === null || refused !== token.proof) return 'ended';
      const { life, askedAt, isProven } = token;
      // It holds for the other requests: what this one asks for is refused, whoever asks.
      if (wasRenewed && life > SHORT_LIFE) return 'none';
      if (isProven && life <= SHORT_LIFE) shortfall = Math.max(shortfall, shortfallOf(life, now() - askedAt));
      token = null;
      return isProven || life <= SHORT_LIFE ? 'ended' : 'doubted';
    },
  };
}

const REFUSALS: ReadonlySet<string> = new Set(['auth_failed', 'bad_token', 'token_redirect']);

function datedToken(
  issued: IssuedToken,
  { askedAt, shortfall, proof }: { askedAt: number; shortfall: number; proof: Proof },
): Token {
  const life = tokenLifetime(issued);
  const believed = life <= SHORT_LIFE ? Math.max(life - shortfall, life / 2) : life;
  return {
    value: issued.value,
    proof,
    life,
    askedAt,
    renewAt: askedAt + believed - Math.min(LEEWAY, believed / 5),
    useUntil: askedAt + believed - Math.min(LAST_MOMENT, believed / 10),
    expiresAt: askedAt + believed,
    isProven: false,
  };
}

/** By how much a token's life was shorter than told; 0 if it was ended rather than that it ran out. */
function shortfallOf(life: number, age: number): number {
  return age >= life / 2 && age < life ? life - age : 0;
}

/** Milliseconds from when it was asked for. */
export function tokenLifetime({ expiresIn = 0 }: IssuedToken): number {
  return expiresIn > 0 ? Math.min(expiresIn * 1_000, LONGEST_LIFETIME) : DEFAULT_LIFETIME;
}
