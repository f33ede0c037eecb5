// Verifies the signatures of a webhook delivery: splits the header into its signatures (`t=1,v1=ab,v1=cd`), and compares
// them with the expected ones in constant time. `create-verifier.ts` calls it for each delivery.
import { createHash, createHmac, createPublicKey, timingSafeEqual, verify } from 'node:crypto';
import type { SignatureMethod, SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { keyBytes, secretFault, type WebhookSecret } from '../../config/profile/signature-secret.ts';
import { ConfigError } from '../../model/errors.ts';
import { type Delivery, NO_PARTS, type SignatureParts, type SignatureRefusal, textAt } from './delivery.ts';

/** One signature of a delivery, as text. */
interface SentItem {
  /** Names the method: `v1`; null if the header is the signature. */
  readonly label: string | null;
  readonly text: string;
}

interface SentSignature {
  items: readonly SentItem[];
  parts: SignatureParts;
}

/** No sender puts more signatures into a delivery; each one costs a comparison. */
const MAX_ITEMS = 20;

const ITEM_PATTERNS = {
  kv: /^(?<label>[A-Za-z0-9_-]+)=(?<text>[^,]+)$/,
  list: /^(?<label>[A-Za-z0-9_-]+),(?<text>[^,]+)$/,
} as const;

/** Reads the signatures in the header of a delivery, and the other parts of that header by their names. */
export function readSignature({ value }: SignatureScheme, delivery: Delivery): SentSignature | SignatureRefusal {
  const { from, parse, prefix, separator } = value;
  const header = textAt(from, delivery, NO_PARTS);
  if (header === null) return 'no_signature';
  if (parse === 'plain') {
    if (!header.startsWith(prefix)) return 'bad_signature_header';
    return { items: [{ label: null, text: header.slice(prefix.length) }], parts: NO_PARTS };
  }
  // Longer separators first: `, ` is not a comma and a text that begins with a blank.
  const separators = new RegExp(separator.toSorted((a, b) => b.length - a.length).join('|'));
  const pieces = header.split(separators, MAX_ITEMS + 1);
  if (pieces.length > MAX_ITEMS) return 'too_many_signatures';
  const items = pieces.flatMap((piece) => {
    const { label, text } = ITEM_PATTERNS[parse].exec(piece)?.groups ?? {};
    return label === undefined || text === undefined ? [] : [{ label, text }];
  });
  if (items.length < pieces.length) return 'bad_signature_header';
  // A part such as the timestamp must not be repeated: it would be ambiguous which one is signed.
  const unique = [...Map.groupBy(items, ({ label }) => label)].filter(([, same]) => same.length === 1);
  return { items, parts: new Map(unique.map(([label, [item]]) => [label, item?.text ?? ''])) };
}

/** Returns true if one of the signatures was made over the content. Compares all of them, so the time shows nothing. */
type Matches = (content: readonly Buffer[], texts: readonly string[]) => boolean;

/** The bytes before the 32 of an Ed25519 public key in its DER form (RFC 8410). */
const SPKI_ED25519 = Buffer.from('302a300506032b6570032100', 'hex');
const ED25519_SIGNATURE_BYTES = 64;

/** Creates the function that verifies signatures of one method with one key. */
function matcherFor({ type, algorithm }: SignatureMethod, key: Buffer, encoding: BufferEncoding): Matches {
  if (type === 'static' || type === 'basic') return secretMatcher(key);
  if (type === 'hmac') {
    return (content, texts) => {
      const hmac = createHmac(algorithm, key);
      for (const piece of content) hmac.update(piece);
      const expected = hmac.digest();
      return someEqual(
        expected,
        texts.map((text) => decodeStrictly(text, encoding, expected.length)),
      );
    };
  }
  const publicKey = createPublicKey({ key: Buffer.concat([SPKI_ED25519, key]), format: 'der', type: 'spki' });
  return (content, texts) => {
    const message = Buffer.concat(content);
    const signatures = texts.map((text) => decodeStrictly(text, encoding, ED25519_SIGNATURE_BYTES));
    const valid = signatures.filter((bytes) => bytes !== null && verify(null, message, publicKey, bytes));
    return valid.length > 0;
  };
}

/** Compares digests, so that not even the length of the secret shows. */
export function secretMatcher(secret: Buffer): Matches {
  return (_content, texts) =>
    someEqual(
      sha256(secret),
      texts.map((text) => sha256(text)),
    );
}

function sha256(text: Uint8Array | string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Compares all of them, without a branch that would make the time depend on the result. */
function someEqual(expected: Buffer, sent: readonly (Buffer | null)[]): boolean {
  let equal = 0;
  for (const bytes of sent) equal += Number(timingSafeEqual(expected, bytes ?? expected)) & Number(bytes !== null);
  return equal > 0;
}

/**
 * Decodes a text of `length` bytes. Null unless it is in canonical form: hex in lower case, base64 with padding, base64url
 * without. The decoder of Node alone would accept `<good>=!!!!`, `abzz` and a base64url text as base64.
 */
function decodeStrictly(text: string, encoding: BufferEncoding, length: number): Buffer | null {
  const bytes = Buffer.from(text, encoding);
  return bytes.length === length && bytes.toString(encoding) === text ? bytes : null;
}

/** A secret that is prepared for one method of the scheme; a scheme may accept several kinds of signatures. */
export interface Key {
  /** The label of its signatures in the header; null if the header is the signature. */
  readonly item: string | null;
  /** Epoch milliseconds until which it is accepted. */
  readonly until: number;
  readonly matches: Matches;
}

/** Id of a secret that only answers a challenge. It must not sign, because it is sent in URLs, which logs contain. */
export const VERIFY_TOKEN_ID = 'verify_token';

/** Prepares the secrets for the methods of the scheme. Throws `ConfigError('settings_invalid')` for an unusable secret. */
export function keysOf(scheme: SignatureScheme, secrets: readonly WebhookSecret[]): Key[] {
  const { challenge } = scheme;
  const usesVerifyToken = typeof challenge === 'string' ? challenge === 'meta' : (challenge?.token ?? null) !== null;
  const signing = usesVerifyToken ? secrets.filter(({ id }) => id !== VERIFY_TOKEN_ID) : secrets;
  return signing.flatMap((secret) => {
    const fault = secretFault(scheme, secret);
    if (fault !== null) throw new ConfigError('settings_invalid', `a webhook secret cannot be used: ${fault}`);
    return scheme.methods.flatMap((method): Key[] => {
      const bytes = keyBytes(method, secret);
      if (bytes === null) return [];
      const { until = Infinity } = secret;
      return [{ item: method.item, until, matches: matcherFor(method, bytes, scheme.value.encoding) }];
    });
  });
}
