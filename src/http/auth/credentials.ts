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
  /** Waits until there is a credential to send. Throws `SyncError` (retry or stop) if none can be obtained. */
  ready(lane: Lane, signal: AbortSignal | undefined): Promise<void>;
  /** The current credential: the same object until it is renewed. */
  current(): SentCredential;
  /** A wrong credential of the same form, without any of the real one's text. */
  falseCredential(): SentCredential;
  /** Query parameters that may hold the credential: they are removed from positions, links and messages. */
  readonly queryNames: readonly string[];
  /**
   * Call when the service refused this credential (401); `wasRenewed`: the same request was refused before. Returns
   * false if another credential would be refused as well.
   */
  renew(refused: SentCredential, wasRenewed: boolean): boolean;
  /** Forgets that the credential was refused, because an operator has fixed it. */
  retry(): void;
}

/** A credential that is always available and never renewed. */
export function fixedCredentials(own: SentCredential, falseOne: SentCredential): Credentials {
  return {
    ready: async () => undefined,
    current: () => own,
    falseCredential: () => falseOne,
    queryNames: Object.keys(own.query),
    renew: () => false,
    retry: () => undefined,
  };
}

/** One secret text. */
export function keyCredentials(carrier: Carrier, key: string, falseKey = falsify(key)): Credentials {
  return {
    ...fixedCredentials(putInto(carrier, key), putInto(carrier, falseKey)),
    queryNames: queryNamesOf(carrier),
  };
}

/** Several secret headers. */
export function headerCredentials(headers: Readonly<Record<string, string>>): Credentials {
  const change = (by: (value: string) => string): SentCredential => ({
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), by(value)])),
    query: {},
  });
  return fixedCredentials(
    change((value) => value),
    change(falsify),
  );
}

/** Basic authentication (RFC 7617) in UTF-8. */
export function basicCredentials(
  { username, password }: { username: string; password: string },
  keepSecret: (secret: string) => void,
): Credentials {
  const own = encodeBasic(username, password);
  keepSecret(own);
  return keyCredentials({ in: 'header', prefix: 'Basic' }, own, encodeBasic(falsify(username), falsify(password)));
}

function encodeBasic(username: string, password: string): string {
  return Buffer.from(`${username}:${password}`).toString('base64');
}

/** Returns a text of the same form. */
export function falsify(text: string): string {
  return text.replaceAll(/\p{L}/gu, 'x').replaceAll(/\p{N}/gu, '0');
}

/** The prefix of the authorization header, unless the profile sets one. */
const DEFAULT_PREFIX = 'Bearer';
const DEFAULT_HEADER = 'authorization';

/** Puts a credential where the profile wants it. */
export function putInto(carrier: Carrier, value: string): SentCredential {
  const text = prefixOf(carrier) + value;
  if (carrier.in === 'query') return { headers: {}, query: { [nameOf(carrier)]: text } };
  if (carrier.in === 'cookie') return { headers: { cookie: `${nameOf(carrier)}=${text}` }, query: {} };
  return { headers: { [nameOf(carrier).toLowerCase()]: text }, query: {} };
}

/** Returns the query parameters that hold the credential. */
export function queryNamesOf(carrier: Carrier): string[] {
  return carrier.in === 'query' ? [nameOf(carrier)] : [];
}

function nameOf({ in: place, name }: Carrier): string {
  return name ?? (place === 'cookie' ? 'session' : DEFAULT_HEADER);
}

/** Profiles write `Ghost` and `Token token=`: only a word is followed by a space. */
function prefixOf({ in: place, name, prefix }: Carrier): string {
  const isDefault = place === 'header' && (name ?? DEFAULT_HEADER).toLowerCase() === DEFAULT_HEADER;
  return (prefix ?? (isDefault ? DEFAULT_PREFIX : '')).replace(/\w$/, '$& ');
}

/** The characters that each location can hold unescaped. */
const ALLOWED: Readonly<Record<Carrier['in'], RegExp>> = {
  header: /^[\x21-\x7e]+$/,
  cookie: /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/,
  query: /^\P{Cc}+$/u,
};
/** Longer tokens exceed the usual limits on request headers. */
export const MAX_TOKEN_LENGTH = 16_384;

/** Throws `bad_token` for a token of the service that cannot be sent in its location. */
export function refuseUnfit(value: string, carrier: Carrier, from: string): void {
  if (value.length <= MAX_TOKEN_LENGTH && ALLOWED[carrier.in].test(value)) return;
  const fault =
    value.length > MAX_TOKEN_LENGTH
      ? `is longer than ${MAX_TOKEN_LENGTH} characters`
      : `cannot stand in a ${carrier.in}`;
  throw new SyncError('bad_token', `${from} gave a token that ${fault}`, {
    recovery: 'stop',
    hint: 'Check where auth in the profile looks for the token, and where it sends it.',
  });
}

/** The lifetime of a token if the service reports none (nothing, or 0), and the longest that is accepted. */
const DEFAULT_LIFETIME_MS = 3_600_000;
const MAX_LIFETIME_MS = 86_400_000;
/** A token is renewed in the background in the last part of its life: a fifth, at most a minute. */
const MAX_RENEWAL_MS = 60_000;
/** In the very last part, a tenth and at most a second, a request waits for the next token. */
const MAX_UNUSED_MS = 1_000;
/** Wait after a failed renewal while the old token is still valid. */
const RENEWAL_RETRY_MS = 5_000;
/** How long a refusal of the client holds: it stays refused until an operator acts. */
const REFUSED_FOR_MS = 3_600_000;
/** Tokens of at most this life may expire on their way: services count in whole seconds. */
const SHORT_LIFE_MS = 60_000;

const REFUSALS: ReadonlySet<string> = new Set(['auth_failed', 'bad_token', 'token_redirect']);

/** Times are monotonic milliseconds. */
interface Token {
  value: string;
  credential: SentCredential;
  lifeMs: number;
  renewAt: number;
  useUntil: number;
  expiresAt: number;
}

/** A token as the service gave it. */
export interface IssuedToken {
  value: string;
  /** Seconds; undefined if the service does not say. */
  expiresIn: number | undefined;
  /** The refresh token that comes in place of the one that was sent; undefined if that one still holds. */
  refreshToken?: string | undefined;
}

interface TokenSource {
  clock: Clock;
  carrier: Carrier;
  /** Requests a token from the service, or from the store if several processes share one. */
  request: (lane: Lane, isRetry: boolean) => Promise<IssuedToken>;
  keepSecret: (secret: string) => void;
}

/**
 * Tokens that expire. One request for a token runs at a time; a token is renewed before it expires, and the old one is
 * used while it is valid and the service gives no other.
 */
export function tokenCredentials({ clock, carrier, request, keepSecret }: TokenSource): Credentials {
  let token: Token | null = null;
  let renewal: Promise<void> | null = null;
  let refusal: { error: SyncError; until: number } | null = null;
  let isRetry = false;
  let quietUntil = 0;
  const now = (): number => clock.monotonic();
  const isValid = (): boolean => token !== null && now() < token.expiresAt;
  const isUsable = (): boolean => isValid() && (now() < (token?.useUntil ?? 0) || now() < quietUntil);

  async function fetchToken(lane: Lane): Promise<void> {
    if (refusal !== null && now() < refusal.until) throw refusal.error;
    const requestedAt = now();
    try {
      const issued = await request(lane, isRetry);
      isRetry = false;
      keepSecret(issued.value);
      const lifeMs = tokenLifetime(issued);
      const expiresAt = requestedAt + lifeMs;
      token = {
        value: issued.value,
        credential: putInto(carrier, issued.value),
        lifeMs,
        renewAt: expiresAt - Math.min(MAX_RENEWAL_MS, lifeMs / 5),
        useUntil: expiresAt - Math.min(MAX_UNUSED_MS, lifeMs / 10),
        expiresAt,
      };
    } catch (error) {
      quietUntil = now() + RENEWAL_RETRY_MS;
      if (error instanceof SyncError && REFUSALS.has(error.code)) refusal = { error, until: now() + REFUSED_FOR_MS };
      throw error;
    }
  }
  function renewToken(lane: Lane): Promise<void> {
    renewal ??= fetchToken(lane).finally(() => (renewal = null));
    return renewal;
  }

  return {
    async ready(lane, signal) {
      if (!isValid()) return unlessAborted(renewToken(lane), signal);
      // In parallel with the requests; a failure is reported once the old token has expired.
      if (token !== null && now() >= Math.max(token.renewAt, quietUntil)) renewToken(lane).catch(() => undefined);
      if (isUsable() || renewal === null) return;
      await unlessAborted(
        renewal.catch(() => undefined),
        signal,
      );
    },
    current: () => token?.credential ?? NO_CREDENTIAL,
    falseCredential: () => putInto(carrier, falsify(token?.value ?? 'none')),
    queryNames: queryNamesOf(carrier),
    retry: () => void ([token, refusal, isRetry] = [null, null, true]),
    renew(refused, wasRenewed) {
      if (token === null || refused !== token.credential) return true;
      // The new token works for other requests: this one is refused with any token.
      if (wasRenewed && token.lifeMs > SHORT_LIFE_MS) return false;
      token = null;
      return true;
    },
  };
}

/** Milliseconds from the request for the token. */
export function tokenLifetime({ expiresIn = 0 }: IssuedToken): number {
  return expiresIn > 0 ? Math.min(expiresIn * 1_000, MAX_LIFETIME_MS) : DEFAULT_LIFETIME_MS;
}
