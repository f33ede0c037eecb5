/**
 * Converts the webhook secrets of the settings to keys (`keyBytes`), and checks their form (`secretFault`): `whsec_...` is
 * base64, for example, and a public key has 32 bytes.
 */
import type { SignatureMethod, SignatureScheme } from './signature-scheme.ts';

/** One secret of a webhook; several may be valid during a rotation. */
export interface WebhookSecret {
  readonly value: string;
  /** The sender's name for this secret, or the user name of basic authentication. */
  readonly id?: string | undefined;
  /** Epoch milliseconds until which it is accepted; default: always. */
  readonly until?: number | undefined;
}

/** The shortest key that Standard Webhooks 1.0.0 allows. */
const WHSEC_BYTES = 24;
const ED25519_BYTES = 32;

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const HEX = /^(?:[0-9A-Fa-f]{2})+$/;
const ONE_LINE = /^[^\p{Cc}\s](?:[^\p{Cc}]*[^\p{Cc}\s])?$/u;
const PRINTABLE_ASCII = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Reads the text of a secret as a key (null if the form is wrong), and describes the expected form. */
const KEYS: Readonly<Record<SignatureMethod['key_encoding'], { read(text: string): Buffer | null; expected: string }>> =
  {
    utf8: {
      read: (text) => (ONE_LINE.test(text) ? Buffer.from(text, 'utf8') : null),
      expected: 'a text on one line, without blanks around it',
    },
    base64: { read: (text) => base64(text), expected: 'base64' },
    hex: {
      read: (text) => (HEX.test(text) ? Buffer.from(text, 'hex') : null),
      expected: 'hexadecimal digits, two for each byte',
    },
    whsec: {
      read: (text) => atLeast(WHSEC_BYTES, base64(text.replace(/^whsec_/, ''))),
      expected: `whsec_ and base64 of at least ${WHSEC_BYTES} bytes`,
    },
    whpk: {
      read: (text) => (text.startsWith('whpk_') ? base64(text.slice('whpk_'.length)) : null),
      expected: `whpk_ and base64 of a public key of ${ED25519_BYTES} bytes`,
    },
  };

/** Returns the key of a secret for one method; null if the form does not fit. */
export function keyBytes(method: SignatureMethod, { value, id }: WebhookSecret): Buffer | null {
  if (method.type === 'basic') return PRINTABLE_ASCII.test(value) ? basicCredential(value, id) : null;
  if (method.type === 'static') return PRINTABLE_ASCII.test(value) ? Buffer.from(value) : null;
  const bytes = KEYS[method.key_encoding].read(value);
  if (method.type === 'ed25519') return bytes?.length === ED25519_BYTES ? bytes : null;
  return bytes;
}

/** Returns the fault of a secret for this scheme as `expected …` without its value; null if it is valid. */
export function secretFault(scheme: SignatureScheme, secret: WebhookSecret): string | null {
  if (scheme.methods.some((method) => keyBytes(method, secret) !== null)) return null;
  return `expected ${scheme.methods.map(expectedSecret).join(', or ')}`;
}

function expectedSecret({ type, key_encoding }: SignatureMethod): string {
  if (type === 'basic') return 'user:password, or a password with the user name as id';
  if (type === 'static') return 'printable ASCII on one line, without blanks around it';
  const { expected } = KEYS[key_encoding];
  return type === 'ed25519' && key_encoding !== 'whpk'
    ? `a public key of ${ED25519_BYTES} bytes as ${expected}`
    : expected;
}

/** Returns the text after `Basic ` in the header. */
function basicCredential(value: string, user: string | undefined): Buffer | null {
  const pair = user === undefined ? value : `${user}:${value}`;
  return /^[^:]+:./.test(pair) ? Buffer.from(Buffer.from(pair).toString('base64')) : null;
}

/** Decodes base64, also without padding; null if it is invalid. */
function base64(text: string): Buffer | null {
  if (!BASE64.test(text)) return null;
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '') ? bytes : null;
}

function atLeast(length: number, bytes: Buffer | null): Buffer | null {
  return bytes !== null && bytes.length >= length ? bytes : null;
}
