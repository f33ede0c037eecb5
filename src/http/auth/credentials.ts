// The credential of a source as requests carry it: a fixed one, such as an API key in a header, or a token that is
// renewed before it expires.
import type { Carrier } from '../../config/profile/auth.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { unlessAborted } from '../../model/waiting.ts';

/** The credential as a request carries it: headers (names in lower case) and query parameters. */
export interface SentCredential {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

export const NO_CREDENTIAL: SentCredential = { headers: {}, query: {} };

/** The credential of a source, renewed when it expires. */
export interface Credentials {
  /**
   * The credential to send: the same object until it is renewed. Waits until there is one. Throws `SyncError` (retry or
   * stop) if none can be obtained.
   */
  get(lane: Lane, signal: AbortSignal | undefined): Promise<SentCredential>;
  /** What `get` would return at once; null if that has expired, as may happen in a long wait for a slot. */
  current(): SentCredential | null;
  /** Query parameters that may hold the credential: they are removed from positions, links and messages. */
  readonly queryNames: readonly string[];
  /**
   * Called after a 401; `wasRenewed` if the same request was refused before. Returns false if a new credential would be
   * refused as well.
   */
  renew(refused: SentCredential, wasRenewed: boolean): boolean;
  /** Tries a refused credential again; called after an operator has fixed it. */
  retry(): void;
}

/** Adds a secret to those that are masked in logs; `expires` for a token, which may be forgotten later. */
export type KeepSecret = (secret: string, expires?: boolean) => void;

/** A credential that is always available and never renewed. */
export function fixedCredentials(credential: SentCredential): Credentials {
  return {
    get: async () => credential,
    current: () => credential,
    queryNames: Object.keys(credential.query),
    renew: () => false,
    retry: () => undefined,
  };
}

/** Returns an invalid credential that looks like the real one (same header and scheme), without any text of it. */
export function falsifyCredential({ headers, query }: SentCredential): SentCredential {
  return { headers: falsifyValues(headers), query: falsifyValues(query) };
}

function falsifyValues(values: Readonly<Record<string, string>>): Record<string, string> {
  const falsified = Object.entries(values).map(([name, value]) => {
    // The scheme before the credential, and the name of a cookie, are no secret.
    const kept = { authorization: /^[A-Za-z]+ /, cookie: /^[^=]+=/ }[name]?.exec(value)?.[0] ?? '';
    const rest = value.slice(kept.length).replaceAll(/\p{L}/gu, 'x');
    return [name, kept + rest.replaceAll(/\p{N}/gu, '0')];
  });
  return Object.fromEntries(falsified);
}

/** The prefix of the authorization header, unless the profile sets one. */
const DEFAULT_PREFIX = 'Bearer';
const DEFAULT_HEADER = 'authorization';

/** Puts a credential into the header, query parameter or cookie that the profile names. */
export function putInto(carrier: Carrier, value: string): SentCredential {
  const name = nameOf(carrier);
  const text = prefixOf(carrier) + value;
  if (carrier.in === 'query') return { headers: {}, query: { [name]: text } };
  if (carrier.in === 'cookie') return { headers: { cookie: `${name}=${text}` }, query: {} };
  return { headers: { [name.toLowerCase()]: text }, query: {} };
}

function nameOf({ in: location, name }: Carrier): string {
  return name ?? (location === 'cookie' ? 'session' : DEFAULT_HEADER);
}

/** Returns the text before the credential: a word such as `Ghost` with a space, `Token token=` without. */
function prefixOf({ in: location, name, prefix }: Carrier): string {
  const isDefault = location === 'header' && (name ?? DEFAULT_HEADER).toLowerCase() === DEFAULT_HEADER;
  return (prefix ?? (isDefault ? DEFAULT_PREFIX : '')).replace(/\w$/, '$& ');
}

/** Lifetime of a token if the service states none or 0, and the maximum. */
const DEFAULT_LIFETIME_MS = 3_600_000;
const MAX_LIFETIME_MS = 86_400_000;
/** A token is renewed in the background before it expires: in the last fifth of its life, at most this long before. */
const MAX_RENEWAL_MS = 60_000;
/** It is not used in the last tenth of its life, at most this long before. */
const MAX_UNUSED_MS = 1_000;
/** Wait after a failed renewal while the old token is still valid. */
const RENEWAL_RETRY_MS = 5_000;
/** After a refusal of the client, no token is requested for this long. */
const REFUSED_FOR_MS = 3_600_000;
/** A token with at most this lifetime may expire on its way to the service. */
const SHORT_LIFE_MS = 60_000;

const REFUSALS: ReadonlySet<string> = new Set(['auth_failed', 'bad_token', 'refresh_token_refused']);

/** Times are monotonic milliseconds. */
interface Token {
  credential: SentCredential;
  lifeMs: number;
  renewAt: number;
  expiresAt: number;
}

/** A token as the service gave it. */
export interface IssuedToken {
  value: string;
  /** Seconds; undefined if the service does not say. */
  expiresIn: number | undefined;
  /** Replaces the refresh token that was sent; undefined if that one stays valid. */
  refreshToken?: string | undefined;
}

interface TokenSource {
  clock: Clock;
  carrier: Carrier;
  /** Requests a token from the service, or from the store if several processes share one. */
  request: (lane: Lane) => Promise<IssuedToken>;
  keepSecret: KeepSecret;
}

/**
 * Creates a credential from tokens that expire. One request for a token runs at a time. A token is renewed before it
 * expires; if that fails, the old one is used while it is valid.
 */
export function tokenCredentials({ clock, carrier, request, keepSecret }: TokenSource): Credentials {
  let token: Token | null = null;
  /** The request for a token that is in progress. */
  let renewal: Promise<Token> | null = null;
  /** The last refusal by the service, and until when it is thrown without another request. */
  let refusal: { error: SyncError; until: number } | null = null;
  const now = (): number => clock.monotonic();
  const validToken = (): Token | null => (token !== null && now() < token.expiresAt ? token : null);

  async function fetchToken(lane: Lane): Promise<Token> {
    if (refusal !== null && now() < refusal.until) throw refusal.error;
    const requestedAt = now();
    try {
      const issued = await request(lane);
      keepSecret(issued.value, true);
      const lifeMs = tokenLifetime(issued);
      token = {
        credential: putInto(carrier, issued.value),
        lifeMs,
        renewAt: requestedAt + lifeMs - Math.min(MAX_RENEWAL_MS, lifeMs / 5),
        expiresAt: requestedAt + lifeMs - Math.min(MAX_UNUSED_MS, lifeMs / 10),
      };
      return token;
    } catch (error) {
      if (token !== null) token.renewAt = now() + RENEWAL_RETRY_MS;
      if (error instanceof SyncError && REFUSALS.has(error.code)) refusal = { error, until: now() + REFUSED_FOR_MS };
      throw error;
    }
  }
  function renewToken(lane: Lane): Promise<Token> {
    renewal ??= fetchToken(lane).finally(() => (renewal = null));
    return renewal;
  }

  return {
    async get(lane, signal) {
      const valid = validToken();
      if (valid === null) return (await unlessAborted(renewToken(lane), signal)).credential;
      // In parallel with the requests; a failure is reported once the old token has expired.
      if (now() >= valid.renewAt) renewToken(lane).catch(() => undefined);
      return valid.credential;
    },
    current: () => validToken()?.credential ?? null,
    queryNames: carrier.in === 'query' ? [nameOf(carrier)] : [],
    retry: () => void ([token, refusal] = [null, null]),
    renew(refused, wasRenewed) {
      if (token === null || refused !== token.credential) return true;
      // Other requests succeed with the new token, so this one would fail with any token.
      if (wasRenewed && token.lifeMs > SHORT_LIFE_MS) return false;
      token = null;
      return true;
    },
  };
}

/** Returns the lifetime in milliseconds, from the request for the token. */
export function tokenLifetime({ expiresIn = 0 }: IssuedToken): number {
  return expiresIn > 0 ? Math.min(expiresIn * 1_000, MAX_LIFETIME_MS) : DEFAULT_LIFETIME_MS;
}
