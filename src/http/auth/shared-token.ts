/**
 * Tokens that processes share through the database, encrypted: one process requests, the others read (`sharedToken`).
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { TokenStore } from '../../database/coordination.ts';
import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { type IssuedToken, tokenLifetime } from './credentials.ts';

/** A process that requested a token and was silent for this long is considered dead: another one takes over. */
export const CLAIM_MS = 30_000;
/** How often a process that waits for another one's token looks for it. */
const POLL_INTERVAL_MS = 100;
/** How often storing an issued token is tried, and the wait in between: it may be the only one that is valid. */
const MAX_STORE_ATTEMPTS = 8;
const STORE_RETRY_MS = 250;

/** What a request for a token needs to know. */
export interface TokenOccasion {
  lane: Lane;
  /** The refresh token that came last; null if none is stored. */
  refreshToken: string | null;
  /** To be called just before sending; false if another process has taken over. */
  isStillMine: () => Promise<boolean>;
}

interface SharedTokenParts {
  store: TokenStore;
  seal: TokenSeal;
  clock: Clock;
  /** Requests a token from the service. */
  request: (occasion: TokenOccasion) => Promise<IssuedToken>;
}

/** A token that was issued and is not stored yet; `endsAt` in monotonic milliseconds. */
interface PendingToken {
  version: number;
  text: string;
  endsAt: number;
}

/**
 * Returns the token that all processes share. Requests one from the service only if this process has had the stored one:
 * a service may revoke the former token with each new one, so two processes that request their own would revoke each
 * other's for ever. A token is stored before it is used, because its refresh token may replace the old one. Throws what
 * `request` and the store throw.
 */
export function sharedToken({ store, seal, clock, request }: SharedTokenParts): (lane: Lane) => Promise<IssuedToken> {
  const claim = { owner: randomUUID(), forMs: CLAIM_MS };
  /** That of the token which this process had last; 0 before the first. */
  let version = 0;
  let pending: PendingToken | null = null;

  /** Tried again while the store fails, and by the next call if it fails for longer. */
  async function storePending({ version: replaced, text, endsAt }: PendingToken): Promise<void> {
    const sealed = seal.seal(text);
    for (let attempts = 1; ; attempts += 1) {
      try {
        // If another process was faster after all, its token stays: all use the one in the store.
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
      // Earlier versions, which may run beside this one, read no token without `isRefused`.
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

/** The stored access token, and the refresh token for the next one; null for what is absent or not readable. */
function readTokens(text: string | null): z.output<typeof tokensSchema> {
  if (text === null) return { access: null, refresh: null };
  // Earlier versions stored an access token alone as it is: it never begins with a brace.
  if (!text.startsWith('{')) return { access: text, refresh: null };
  return tokensSchema.safeParse(JSON.parse(text)).data ?? { access: null, refresh: null };
}

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts the tokens of one credential for a store that others can read. */
interface TokenSeal {
  /** The same for all processes with the same secret, and another one once the secret is another. */
  name: string;
  seal(token: string): string;
  /** Null for what was not sealed with this secret, or was changed since. */
  open(sealed: string): string | null;
}

/**
 * Keys are derived from the secret of the settings (HKDF, RFC 5869): without it no token can be read. `about` is what
 * else makes it another token.
 */
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
