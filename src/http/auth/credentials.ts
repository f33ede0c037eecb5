import type { Carrier } from '../../config/profile/auth.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { unlessAborted } from '../../model/waiting.ts';
import type { IssuedToken } from './token-request.ts';

/** What a request carries to prove who asks: headers by name in lower case, and query parameters. */
export interface Proof {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
}

export const NO_PROOF: Proof = { headers: {}, query: {} };

/**
 * The meaning of a refusal: no other proof can be had; another one can, and if that is refused too, something else is
 * wrong; or the proof has ended, as those of this service do.
 */
type Renewal = 'none' | 'doubted' | 'ended';

/** The proof of who is asking, kept fresh. */
export interface Credentials {
  /** Waits until there is something to send; throws `SyncError` (retry or stop) if there is none to be had. */
  ready(lane: Lane, signal: AbortSignal | undefined): Promise<void>;
  /** False once what `proof` gives is known to have run out, as may happen in a long wait for a slot. */
  fresh(): boolean;
  /** The same object until it is renewed. */
  proof(): Proof;
  /** A proof of the same form with nothing of the own one's text, so that it can stand in any message. */
  falseProof(): Proof;
  /** Query parameters that `proof` may have: in no other way do they stand in a request, a position or a message. */
  readonly queryNames: readonly string[];
  /** Monotonic milliseconds until which the proof holds, as far as is known; infinite for what never runs out. */
  holdsUntil(): number;
  /** Called when the service took this proof. */
  accepted(proof: Proof): void;
  /** Called when the service refused this proof (401); `wasRenewed`: the same request was refused before. */
  renew(refused: Proof, wasRenewed: boolean): Renewal;
  /** Called when a person has mended what was refused: the service is asked again. */
  retry(): void;
}

/** A proof that is always there and never renewed. */
export function fixedCredentials(proof: Proof, falseProof: Proof): Credentials {
  return {
    ready: async () => undefined,
    fresh: () => true,
    proof: () => proof,
    falseProof: () => falseProof,
    queryNames: Object.keys(proof.query),
    holdsUntil: () => Infinity,
    accepted: () => undefined,
    renew: () => 'none',
    retry: () => undefined,
  };
}

/** One secret text. */
export function keyCredentials(carrier: Carrier, key: string): Credentials {
  return {
    ...fixedCredentials(carried(carrier, key), carried(carrier, falsified(key))),
    queryNames: queryNamesOf(carrier),
  };
}

/** Several secret headers. */
export function headerCredentials(headers: Readonly<Record<string, string>>): Credentials {
  const over = (change: (value: string) => string): Proof => ({
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), change(value)])),
    query: {},
  });
  return fixedCredentials(
    over((value) => value),
    over(falsified),
  );
}

/** RFC 7617, in UTF-8. */
export function basicCredentials(
  { username, password }: { username: string; password: string },
  keepSecret: (secret: string) => void,
): Credentials {
  const own = basicProof(username, password);
  for (const sent of Object.values(own.headers)) keepSecret(sent.replace('Basic ', ''));
  return fixedCredentials(own, basicProof(falsified(username), falsified(password)));
}

function basicProof(user: string, password: string): Proof {
  return carried({ in: 'header', prefix: 'Basic' }, Buffer.from(`${user}:${password}`).toString('base64'));
}

/** A text of the same form. */
export function falsified(text: string): string {
  return text.replaceAll(/\p{L}/gu, 'x').replaceAll(/\p{N}/gu, '0');
}

/** The prefix that belongs to a header which the settings do not name. */
const USUAL_PREFIX = 'Bearer';
const USUAL_HEADER = 'authorization';

/** A credential where the profile wants it. */
export function carried(carrier: Carrier, value: string): Proof {
  const text = prefixOf(carrier) + value;
  if (carrier.in === 'query') return { headers: {}, query: { [nameOf(carrier)]: text } };
  if (carrier.in === 'cookie') return { headers: { cookie: `${nameOf(carrier)}=${text}` }, query: {} };
  return { headers: { [nameOf(carrier).toLowerCase()]: text }, query: {} };
}

/** Query parameters that belong to the credential. */
export function queryNamesOf(carrier: Carrier): string[] {
  return carrier.in === 'query' ? [nameOf(carrier)] : [];
}

function nameOf({ in: place, name }: Carrier): string {
  return name ?? (place === 'cookie' ? 'session' : USUAL_HEADER);
}

/** With a blank behind a word: `Ghost` and `Token token=` are both written without one. */
function prefixOf({ in: place, name, prefix }: Carrier): string {
  const isUsual = place === 'header' && (name ?? USUAL_HEADER).toLowerCase() === USUAL_HEADER;
  return (prefix ?? (isUsual ? USUAL_PREFIX : '')).replace(/\w$/, '$& ');
}

/** What each place can hold as it is. */
const FITTING: Readonly<Record<Carrier['in'], RegExp>> = {
  header: /^[\x21-\x7e]+$/,
  cookie: /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/,
  query: /^\P{Cc}+$/u,
};
/** Longer ones go through no usual limit on the headers of a request. */
const LONGEST = 16_384;

/** Throws `bad_token` for a credential of the service's that cannot be sent in its place. */
export function refuseUnfit(value: string, carrier: Carrier, from: string): void {
  if (value.length <= LONGEST && FITTING[carrier.in].test(value)) return;
  const fault = value.length > LONGEST ? `is longer than ${LONGEST} characters` : `cannot stand in a ${carrier.in}`;
  throw new SyncError('bad_token', `${from} gave a token that ${fault}`, {
    recovery: 'stop',
    hint: 'Check where auth in the profile looks for the token, and where it sends it.',
  });
}

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
