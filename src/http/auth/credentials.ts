import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Carrier } from '../../config/profile/auth.ts';

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
