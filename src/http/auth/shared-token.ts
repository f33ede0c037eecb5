import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Coordination } from '../../warehouse/coordination.ts';
import type { OauthSettings } from './grants.ts';
import type { IssuedToken } from './token-request.ts';

/** The store of the tokens that several processes use together. */
export type TokenStore = Pick<Coordination, 'claimToken' | 'swapToken' | 'freeToken'>;

/** One who asked and was not heard of for so long is dead, or was left waiting by the service: another one asks. */
const CLAIM_MS = 30_000;
/** How often those who wait for another one's token look for it. */
const LOOK_MS = 100;

interface SharedTokenParts {
  store: TokenStore;
  seal: TokenSeal;
  clock: Clock;
  /** Asks the service. */
  request: (lane: Lane) => Promise<IssuedToken>;
  /** Milliseconds that a token holds. */
  lifetime: (token: IssuedToken) => number;
}

/**
 * Gives the token that all processes use, and asks the service for one only if there is none that this process has
 * not had yet: a service may end the former token with each new one, and two that ask by themselves would then throw
 * each other out for ever. To be called again once the last one can no longer be used, or soon cannot. Throws what
 * `request` and the store throw. As with a request of one's own, a token's life counts from when it was asked for.
 */
export function sharedToken(parts: SharedTokenParts): (lane: Lane) => Promise<IssuedToken> {
  const { store, seal, clock } = parts;
  const claim = { owner: randomUUID(), forMs: CLAIM_MS };
  /** That of the token which was had last; 0 before the first. */
  let version = 0;
  return async (lane) => {
    const begun = clock.monotonic();
    for (;;) {
      const waited = clock.monotonic() - begun;
      const stored = await store.claimToken(seal.name, version, claim);
      if (stored.isMine) await replaceToken(parts, { lane, version, owner: claim.owner });
      else if (stored.version === version) await clock.sleep(LOOK_MS);
      else {
        version = stored.version;
        const value = stored.sealed === null || stored.expiresIn <= 0 ? null : seal.open(stored.sealed);
        if (value !== null) return { value, expiresIn: (waited + stored.expiresIn) / 1_000 };
      }
    }
  };
}

/** If another process was faster after all, its token stays: all use the one in the store. */
async function replaceToken(
  { store, seal, clock, request, lifetime }: SharedTokenParts,
  { lane, version, owner }: { lane: Lane; version: number; owner: string },
): Promise<void> {
  const asked = clock.monotonic();
  try {
    const issued = await request(lane);
    const expiresIn = lifetime(issued) - (clock.monotonic() - asked);
    await store.swapToken(seal.name, version, { sealed: seal.seal(issued.value), expiresIn });
  } catch (error) {
    // One that cannot be given back runs out by itself, and must not hide what went wrong.
    await store.freeToken(seal.name, owner).catch(() => undefined);
    throw error;
  }
}

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** How the tokens of one client are kept in a store that others can read. */
interface TokenSeal {
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
