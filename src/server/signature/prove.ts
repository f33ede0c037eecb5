import { ConfigError } from '../../model/errors.ts';
import { keyBytes, secretFault, type WebhookSecret } from '../../config/profile/signature-secret.ts';
import type { SignatureMethod, SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { textAt, type Delivery, type Parts, type SignatureRefusal } from './delivery.ts';
import {
  createHash,
  createHmac,
  createPublicKey,
  createSecretKey,
  timingSafeEqual,
  verify,
  type Hash,
  type Hmac,
} from 'node:crypto';

/** One signature of a delivery, still as text. */
export interface SentItem {
  /** Which method made it: `v1`; null if the header holds nothing but the signature. */
  readonly label: string | null;
  readonly text: string;
}

interface SentSignature {
  items: readonly SentItem[];
  parts: Parts;
}

/** More signatures than any sender puts into a delivery; each one costs a comparison. */
const MOST_ITEMS = 20;

const NO_PARTS: Parts = new Map();

/** How an item of a list is written; every item must be, also those that are of no interest. */
const ITEMS = {
  kv: /^(?<label>[A-Za-z0-9_-]+)=(?<text>[^,]+)$/,
  list: /^(?<label>[A-Za-z0-9_-]+),(?<text>[^,]+)$/,
} as const;

/** Makes the function that cuts a signature header as the scheme says. */
export function signatureReader({ value }: SignatureScheme): (delivery: Delivery) => SentSignature | SignatureRefusal {
  const { from, parse, prefix } = value;
  const cut = parse === 'plain' ? cutPrefix(prefix) : cutItems(ITEMS[parse], value.separator);
  return (delivery) => {
    const text = textAt(from, delivery, NO_PARTS);
    return text === null ? 'no_signature' : cut(text);
  };
}

function cutPrefix(prefix: string): (text: string) => SentSignature | SignatureRefusal {
  return (text) => {
    if (!text.startsWith(prefix)) return 'bad_signature_header';
    return { items: [{ label: null, text: text.slice(prefix.length) }], parts: NO_PARTS };
  };
}

function cutItems(pattern: RegExp, separators: readonly string[]): (text: string) => SentSignature | SignatureRefusal {
  const between = new RegExp(separators.toSorted((a, b) => b.length - a.length).join('|'));
  return (text) => {
    const pieces = text.split(between, MOST_ITEMS + 1);
    if (pieces.length > MOST_ITEMS) return 'too_many_signatures';
    const items = pieces.map((piece) => pattern.exec(piece)?.groups).map(itemOf);
    const whole = items.filter((item) => item !== null);
    return whole.length < items.length ? 'bad_signature_header' : { items: whole, parts: partsOf(whole) };
  };
}

function itemOf(groups: Record<string, string> | undefined): SentItem | null {
  const { label, text } = groups ?? {};
  return label === undefined || text === undefined ? null : { label, text };
}

function partsOf(items: readonly SentItem[]): Parts {
  const parts = new Map<string, string>();
  const repeated = new Set<string>();
  for (const { label, text } of items) {
    if (label === null) continue;
    if (parts.has(label)) repeated.add(label);
    parts.set(label, text);
  }
  for (const label of repeated) parts.delete(label);
  return parts;
}

/** How bytes are written as text. */
type TextEncoding = 'hex' | 'base64' | 'base64url';

/**
 * Whether one of the signatures was made over the content with this key. The work is the same whatever is found: every
 * signature is compared, none ends the comparison.
 */
type Prove = (content: readonly Buffer[], texts: readonly string[]) => boolean;

/** The bytes before the 32 of an Ed25519 public key in its DER form (RFC 8410). */
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex');
const ED25519_SIGNATURE_BYTES = 64;

/** How each type of method is checked, with the key prepared once. */
export const PROVERS: Readonly<
  Record<
    SignatureMethod['type'],
    (key: Buffer, algorithm: SignatureMethod['algorithm'], encoding: TextEncoding) => Prove
  >
> = {
  hmac: (key, algorithm, encoding) => {
    const secret = createSecretKey(key);
    return byDigest(() => createHmac(algorithm, secret), encoding);
  },
  // The key stands in the content.
  hash: (_key, algorithm, encoding) => byDigest(() => createHash(algorithm), encoding),
  ed25519: byPublicKey,
  static: bySameText,
  basic: bySameText,
};

function byDigest(begin: () => Hash | Hmac, encoding: TextEncoding): Prove {
  return (content, texts) => {
    const digest = begin();
    for (const piece of content) digest.update(piece);
    const expected = digest.digest();
    return someEqual(
      expected,
      texts.map((text) => decodeStrictly(text, encoding, expected.length)),
    );
  };
}

/**
 * Digests of both sides are compared, so that not even the length of the secret shows. The content goes into both of
 * them, so that this takes as long as a signature over it.
 */
function bySameText(key: Buffer): Prove {
  return (content, texts) => {
    const begun = createHash('sha256');
    for (const piece of content) begun.update(piece);
    const expected = begun.copy().update(key).digest();
    return someEqual(
      expected,
      texts.map((text) => begun.copy().update(text, 'utf8').digest()),
    );
  };
}

function byPublicKey(key: Buffer, _algorithm: SignatureMethod['algorithm'], encoding: TextEncoding): Prove {
  const publicKey = createPublicKey({ key: Buffer.concat([SPKI_ED25519, key]), format: 'der', type: 'spki' });
  return (content, texts) => {
    const message = Buffer.concat(content);
    const signatures = texts.map((text) => decodeStrictly(text, encoding, ED25519_SIGNATURE_BYTES));
    return (
      signatures.filter((signature) => signature !== null && verify(null, message, publicKey, signature)).length > 0
    );
  };
}

function someEqual(expected: Buffer, given: readonly (Buffer | null)[]): boolean {
  let equal = 0;
  for (const one of given) equal += Number(timingSafeEqual(expected, one ?? expected)) & Number(one !== null);
  return equal > 0;
}

const LENGTHS: Readonly<Record<TextEncoding, (bytes: number) => number>> = {
  hex: (bytes) => bytes * 2,
  base64: (bytes) => Math.ceil(bytes / 3) * 4,
  base64url: (bytes) => Math.ceil((bytes * 4) / 3),
};

/**
 * Decodes a text of exactly `length` bytes; null unless it is written in the one canonical way: hex in lower case, base64
 * padded, base64url not padded, nothing before, after or in between. Node's own decoder accepts `<good>=!!!!`, `abzz` and
 * a base64url text as base64.
 */
function decodeStrictly(text: string, encoding: TextEncoding, length: number): Buffer | null {
  if (text.length !== LENGTHS[encoding](length)) return null;
  const bytes = Buffer.from(text, encoding);
  // Writing it again also finds bits of the last character that belong to no byte.
  return bytes.length === length && bytes.toString(encoding) === text ? bytes : null;
}

/** A secret made ready for the one method of a scheme that its form fits. */
export interface Key {
  readonly method: SignatureMethod;
  readonly bytes: Buffer;
  /** Whether a signature names this key, as far as it names one. */
  isMeant(item: SentItem): boolean;
  isActive(now: number): boolean;
  readonly prove: Prove;
}

/**
 * Id of a secret that only answers a challenge (`challenges.ts`): it stands in addresses and logs, so that it must not
 * be able to sign.
 */
export const VERIFY_TOKEN_ID = 'verify_token';

/** All keys of a source. Throws `ConfigError('webhook_secret')` for a secret that the scheme cannot use. */
export function keysOf(scheme: SignatureScheme, secrets: readonly WebhookSecret[]): Key[] {
  const signing = asksForToken(scheme) ? secrets.filter(({ id }) => id !== VERIFY_TOKEN_ID) : secrets;
  return signing.flatMap((secret) => {
    const fault = secretFault(scheme, secret);
    if (fault !== null) throw new ConfigError('webhook_secret', `a webhook secret cannot be used: ${fault}`);
    return scheme.methods.flatMap((method) => {
      const bytes = keyBytes(method, secret);
      return bytes === null ? [] : [keyOf(scheme, method, secret, bytes)];
    });
  });
}

function asksForToken({ challenge }: SignatureScheme): boolean {
  return typeof challenge === 'string' ? challenge === 'meta' : challenge !== null && challenge.token !== null;
}

function keyOf(scheme: SignatureScheme, method: SignatureMethod, secret: WebhookSecret, bytes: Buffer): Key {
  const { until = Infinity } = secret;
  return {
    method,
    bytes,
    isMeant: ({ label }) => label === method.item,
    isActive: (now) => now <= until,
    prove: PROVERS[method.type](bytes, method.algorithm, scheme.value.encoding),
  };
}
