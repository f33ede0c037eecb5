// Shares a token between processes through the database, encrypted: one process requests it, the others read it. Many
// services revoke the previous token with each new one, so processes with tokens of their own would revoke each
// other's.
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { TokenStore } from '../../database/coordination.ts';
import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { type IssuedToken, tokenLifetime } from './credentials.ts';

/** If a process has not stored the token it requested after this time, another one takes over. */
export const CLAIM_MS = 30_000;
/** Interval in which a process looks for the token that another one requests. */
const POLL_INTERVAL_MS = 100;
/** Attempts to store a token, which may be the only valid one, and the wait between them. */
const MAX_STORE_ATTEMPTS = 8;
const STORE_RETRY_MS = 250;

/** The input of a request for a token. */
export interface TokenRequest {
  lane: Lane;
  /** The newest refresh token; null if none is stored. */
  refreshToken: string | null;
  /** Called just before sending; returns false if another process has taken over. Absent without a token store. */
  isStillMine?: () => Promise<boolean>;
}

interface SharedTokenParts {
  store: TokenStore;
  seal: TokenSeal;
  clock: Clock;
  /** Requests a token from the service. */
  request: (input: TokenRequest) => Promise<IssuedToken>;
}

/** A token that was issued and is not stored yet; `endsAt` in monotonic milliseconds. */
interface PendingToken {
  version: number;
  text: string;
  endsAt: number;
}

/**
 * Creates a function that returns the token that all processes share. It requests a new one only if this process has
 * already used the stored one. A token is stored before it is used, because its refresh token may replace the old one.
 * Throws the errors of `request` and the store.
 */
export function sharedToken({ store, seal, clock, request }: SharedTokenParts): (lane: Lane) => Promise<IssuedToken> {
  const claim = { owner: randomUUID(), forMs: CLAIM_MS };
  /** Version of the token that this process used last; 0 before the first. */
  let version = 0;
  let pending: PendingToken | null = null;

  /** Stores the token; if all attempts fail, the next call tries again. */
  async function storePending({ version: replaced, text, endsAt }: PendingToken): Promise<void> {
    const sealed = seal.seal(text);
    for (let attempts = 1; ; attempts += 1) {
      try {
        // If another process was faster, its token stays, and all processes use that one.
        await store.swapToken(seal.name, replaced, { sealed, expiresIn: endsAt - clock.monotonic() });
        pending = null;
        return;
      } catch (error) {
        if (attempts >= MAX_STORE_ATTEMPTS) throw error;
        await clock.sleep(STORE_RETRY_MS * attempts);
      }
    }
  }

  async function replaceToken(lane: Lane, refreshToken: string | null): Promise<void> {
    const requestedAt = clock.monotonic();
    try {
      const isStillMine = async (): Promise<boolean> => (await store.claimToken(seal.name, version, claim)).isMine;
      const issued = await request({ lane, refreshToken, isStillMine });
      // Processes of earlier versions, which may share the database, read only tokens with `isRefused`.
      const tokens = { access: issued.value, refresh: issued.refreshToken ?? refreshToken, isRefused: false };
      const text = JSON.stringify(tokens);
      pending = { version, text, endsAt: requestedAt + tokenLifetime(issued) };
    } catch (error) {
      // A claim that cannot be released expires, and must not hide the first error.
      await store.freeToken(seal.name, claim.owner).catch(() => undefined);
      throw error;
    }
  }

  return async (lane) => {
    const begun = clock.monotonic();
    for (;;) {
      if (pending !== null) await storePending(pending);
      const waited = clock.monotonic() - begun;
      const stored = await store.claimToken(seal.name, version, claim);
      const { access, refresh } = readTokens(stored.sealed === null ? null : seal.open(stored.sealed));
      if (stored.isMine) await replaceToken(lane, refresh);
      else if (stored.version === version) await clock.sleep(POLL_INTERVAL_MS);
      else {
        version = stored.version;
        if (access !== null && stored.expiresIn > 0) {
          return { value: access, expiresIn: (waited + stored.expiresIn) / 1_000 };
        }
      }
    }
  };
}

const tokensSchema = z.object({ access: z.string().nullable(), refresh: z.string().nullable() });

/** Reads the stored access token and refresh token; null for each that is absent or unreadable. */
function readTokens(text: string | null): z.output<typeof tokensSchema> {
  if (text === null) return { access: null, refresh: null };
  // Earlier versions stored an access token alone as it is: it never begins with a brace.
  if (!text.startsWith('{')) return { access: text, refresh: null };
  return tokensSchema.safeParse(JSON.parse(text)).data ?? { access: null, refresh: null };
}

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts the tokens of one credential. */
interface TokenSeal {
  /** Key of the stored token, derived from the secret. */
  name: string;
  seal(token: string): string;
  /** Decrypts; null for a text of another secret, or one that was changed. */
  open(sealed: string): string | null;
}

/** Creates the encryption with keys derived from the secret of the settings (HKDF, RFC 5869) and `about`. */
export function tokenSeal(origin: string, secret: string, about: readonly (string | null)[]): TokenSeal {
  const salt = createHash('sha256').update(JSON.stringify(about)).digest();
  const derive = (use: string, bytes: number): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, salt, `content-sync token ${use}`, bytes));
  const key = derive('key', 32);
  return {
    name: `${origin} ${derive('name', 12).toString('hex')}`,
    seal: (token) => {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv(CIPHER, key, iv);
      const text = Buffer.concat([cipher.update(token, 'utf8'), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64');
    },
    open: (sealed) => {
      const bytes = Buffer.from(sealed, 'base64');
      const [iv, tag] = [bytes.subarray(0, IV_BYTES), bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)];
      try {
        const decipher = createDecipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES }).setAuthTag(tag);
        return decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      } catch {
        return null;
      }
    },
  };
}
