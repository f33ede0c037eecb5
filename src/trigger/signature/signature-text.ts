import { createHash, createHmac, createPrivateKey, sign, type KeyObject } from 'node:crypto';
import { ConfigError } from '../../model/errors.ts';
import { keyBytes, secretFault, type WebhookSecret } from '../../source/signature-secret.ts';
import type { SignatureMethod } from '../../source/signature-fields.ts';
import type { SignatureScheme } from '../../source/signature-scheme.ts';

/** What the sender of a delivery has: a method, its key, and how it signs with it. */
export interface SigningKey {
  method: SignatureMethod;
  /** The key's bytes; empty for a private key. */
  bytes: Buffer;
  /** The signature as bytes; for types that sign nothing the secret as it is sent. */
  sign: (content: readonly Buffer[]) => Buffer;
}

/** What stands before the 32 bytes of an Ed25519 private key in its DER form (RFC 8410). */
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SEED_BYTES = 32;

/**
 * The key to sign with. For Ed25519 the secret is the private key: PEM, or its 32 bytes as hex or base64, `whsk_` before
 * them or not. Throws `ConfigError('webhook_secret')`.
 */
export function signingKey(scheme: SignatureScheme, secret: WebhookSecret): SigningKey {
  for (const method of scheme.methods) {
    const key = sharedKey(method, secret) ?? privateKey(method, secret.value);
    if (key !== null) return key;
  }
  const expected = scheme.methods.some(({ type }) => type === 'ed25519') ? PRIVATE_EXPECTED : null;
  const fault = [secretFault(scheme, secret), expected].filter((text) => text !== null).join('; ');
  throw new ConfigError('webhook_secret', `cannot sign with this secret: ${fault}`);
}

const PRIVATE_EXPECTED = 'expected, for Ed25519, the private key: PEM, or 32 bytes as hex or base64';

function sharedKey(method: SignatureMethod, secret: WebhookSecret): SigningKey | null {
  const { type } = method;
  const bytes = keyBytes(method, secret);
  if (type === 'ed25519' || bytes === null) return null;
  return { method, bytes, sign: (content) => SIGNERS[type](bytes, method, content) };
}

const SIGNERS: Readonly<
  Record<
    Exclude<SignatureMethod['type'], 'ed25519'>,
    (key: Buffer, method: SignatureMethod, content: readonly Buffer[]) => Buffer
  >
> = {
  hmac: (key, { algorithm }, content) => createHmac(algorithm, key).update(Buffer.concat(content)).digest(),
  hash: (_key, { algorithm }, content) => createHash(algorithm).update(Buffer.concat(content)).digest(),
  static: (key) => key,
  basic: (key) => key,
};

function privateKey(method: SignatureMethod, text: string): SigningKey | null {
  const isPem = text.startsWith('-----BEGIN ');
  const seed = isPem ? null : seedOf(text.replace(/^whsk_/, ''));
  if (method.type !== 'ed25519' || (seed === null && !isPem)) return null;
  const key =
    seed === null
      ? pemKey(text)
      : createPrivateKey({ key: Buffer.concat([PKCS8_ED25519, seed]), format: 'der', type: 'pkcs8' });
  if (key === null) return null;
  return { method, bytes: Buffer.alloc(0), sign: (content) => sign(null, Buffer.concat(content), key) };
}

function pemKey(text: string): KeyObject | null {
  try {
    const key = createPrivateKey(text);
    return key.asymmetricKeyType === 'ed25519' ? key : null;
  } catch {
    // Its message could hold a piece of the key.
    return null;
  }
}

function seedOf(text: string): Buffer | null {
  const encoding = /^[0-9a-f]{64}$/i.test(text) ? 'hex' : 'base64';
  const seed = Buffer.from(text, encoding);
  return seed.length === SEED_BYTES && /^[A-Za-z0-9+/]+=?$/.test(text) ? seed : null;
}
