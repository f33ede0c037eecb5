import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { OauthSettings } from './token-request.ts';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** How the tokens of one client are kept where others can look. */
export interface TokenSeal {
  /** The same for all who have the same secret, and another one once the secret is another. */
  name: string;
  seal(token: string): string;
  /** Null for what was not sealed with this secret, or was changed since. */
  open(sealed: string): string | null;
}

/** Keys are derived from the client's secret (HKDF, RFC 5869): who has no secret can read no token. */
export function tokenSeal(auth: OauthSettings, url: URL): TokenSeal {
  const about = createHash('sha256')
    .update(JSON.stringify([url.href, auth.client_id, auth.scope ?? null]))
    .digest();
  const derived = (use: string, bytes: number): Buffer =>
    Buffer.from(hkdfSync('sha256', auth.client_secret, about, `content-sync token ${use}`, bytes));
  const key = derived('key', 32);
  return {
    name: `${url.origin} ${derived('name', 12).toString('hex')}`,
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
