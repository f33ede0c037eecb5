import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** How the tokens of one credential are kept in a store that others can read. */
export interface TokenSeal {
  /** The same for all who have the same secret, and another one once the secret is another. */
  name: string;
  seal(token: string): string;
  /** Null for what was not sealed with this secret, or was changed since. */
  open(sealed: string): string | null;
}

/**
 * Keys are derived from the secret of the settings (HKDF, RFC 5869): who has no secret can read no token. `about` is
 * what else makes it another token.
 */
export function tokenSeal(origin: string, secret: string, about: readonly (string | null)[]): TokenSeal {
  const salt = createHash('sha256').update(JSON.stringify(about)).digest();
  const derived = (use: string, bytes: number): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, salt, `content-sync token ${use}`, bytes));
  const key = derived('key', 32);
  return {
    name: `${origin} ${derived('name', 12).toString('hex')}`,
    seal: (token) => {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv(CIPHER, key, iv);
      const text = Buffer.concat([cipher.update(token, 'utf8'), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64');
    },
    open: (sealed) => opened(Buffer.from(sealed, 'base64'), key),
  };
}

function opened(bytes: Buffer, key: Buffer): string | null {
  const [iv, tag] = [bytes.subarray(0, IV_BYTES), bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)];
  try {
    const decipher = createDecipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES }).setAuthTag(tag);
    return decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    return null;
  }
}
