import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { TokenStore } from '../../database/coordination.ts';
import type { IssuedToken } from './credentials.ts';

/** A process that requested a token and was silent for this long is considered dead: another one takes over. */
export const CLAIM_MS = 30_000;
/** How often those who wait for another one's token look for it. */
const POLL_INTERVAL_MS = 100;
/** How often a token that was issued is tried to be stored, and how long between: it may be the only one that holds. */
const MAX_STORE_ATTEMPTS = 8;
const STORE_RETRY_MS = 250;

/** What a request for a token is given. */
export interface TokenOccasion {
  lane: Lane;
  /** The refresh token that came last; null if none was kept. */
  refreshToken: string | null;
  /** To be called just before sending; false if another process has taken over. */
  isStillMine: () => Promise<boolean>;
}

interface SharedTokenParts {
  store: TokenStore;
  seal: TokenSeal;
  clock: Clock;
  /** Asks the service. */
  request: (occasion: TokenOccasion) => Promise<IssuedToken>;
  /** Milliseconds that a token holds. */
  lifetime: (token: IssuedToken) => number;
  /** The error for a refresh token that the service has refused once and for all; absent if there are none. */
  refusal?: (() => SyncError) | undefined;
}

/** A token that could not be stored yet. */
interface Unstored {
  version: number;
  kept: KeptToken;
  /** Monotonic milliseconds. */
  endsAt: number;
}

/**
 * Returns the token that all processes share. Requests one from the service only if this process has had the stored one:
 * a service may revoke the former token with each new one, so two processes that request their own would revoke each
 * other's for ever. A token is stored before it is used, because its refresh token may replace the old one. Throws what
 * `request` and the store throw. A final refusal is tested again only if `isRetry`, on an operator's request.
 */
export function sharedToken(parts: SharedTokenParts): (lane: Lane, isRetry?: boolean) => Promise<IssuedToken> {
  const { store, seal, clock, refusal } = parts;
  const claim = { owner: randomUUID(), forMs: CLAIM_MS };
  /** That of the token which was had last; 0 before the first. */
  let version = 0;
  const unstored: { token: Unstored | null } = { token: null };
  return async (lane, isRetry = false) => {
    const begun = clock.monotonic();
    for (;;) {
      if (unstored.token !== null) await storeToken(parts, unstored, unstored.token);
      const waited = clock.monotonic() - begun;
      const stored = await store.claimToken(seal.name, version, claim);
      const kept = readKept(stored.sealed === null ? null : seal.open(stored.sealed));
      if (kept.isRefused && refusal !== undefined && !isRetry) {
        await store.freeToken(seal.name, claim.owner);
        throw refusal();
      }
      if (stored.isMine) await replaceToken(parts, unstored, { lane, version, claim, kept });
      else if (stored.version === version) await clock.sleep(POLL_INTERVAL_MS);
      else {
        version = stored.version;
        const value = stored.expiresIn <= 0 ? null : kept.access;
        if (value !== null) return { value, expiresIn: (waited + stored.expiresIn) / 1_000 };
      }
    }
  };
}

interface TokenReplacement {
  lane: Lane;
  version: number;
  claim: { owner: string; forMs: number };
  kept: KeptToken;
}

/** If another process was faster after all, its token stays: all use the one in the store. */
async function replaceToken(
  parts: SharedTokenParts,
  unstored: { token: Unstored | null },
  { lane, version, claim, kept }: TokenReplacement,
): Promise<void> {
  const { store, seal, clock, request, lifetime } = parts;
  const askedAt = clock.monotonic();
  try {
    const isStillMine = async (): Promise<boolean> => (await store.claimToken(seal.name, version, claim)).isMine;
    const issued = await request({ lane, refreshToken: kept.refresh, isStillMine });
    const refresh = issued.refreshToken ?? kept.refresh;
    unstored.token = {
      version,
      kept: { access: issued.value, refresh, isRefused: false },
      endsAt: askedAt + lifetime(issued),
    };
  } catch (error) {
    if (isRefusal(error, parts)) {
      unstored.token = { version, kept: { access: null, refresh: null, isRefused: true }, endsAt: askedAt };
      await storeToken(parts, unstored, unstored.token);
    }
    // A claim that cannot be released expires, and must not hide the first error.
    await store.freeToken(seal.name, claim.owner).catch(() => undefined);
    throw error;
  }
  await storeToken(parts, unstored, unstored.token);
}

function isRefusal(error: unknown, { refusal }: SharedTokenParts): boolean {
  return error instanceof SyncError && refusal !== undefined && error.code === refusal().code;
}

/** Tried again while the store fails, and by the next call if it fails for longer. */
async function storeToken(
  { store, seal, clock }: SharedTokenParts,
  unstored: { token: Unstored | null },
  { version, kept, endsAt }: Unstored,
): Promise<void> {
  const sealed = seal.seal(keptText(kept));
  for (let tries = 1; ; tries += 1) {
    try {
      await store.swapToken(seal.name, version, { sealed, expiresIn: endsAt - clock.monotonic() });
      unstored.token = null;
      return;
    } catch (error) {
      if (tries >= MAX_STORE_ATTEMPTS) throw error;
      await clock.sleep(STORE_RETRY_MS * tries);
    }
  }
}

/** What is kept of a token: an access token, the refresh token for the next one, and whether that one was refused. */
interface KeptToken {
  access: string | null;
  refresh: string | null;
  isRefused: boolean;
}

const NOTHING: KeptToken = { access: null, refresh: null, isRefused: false };

const keptSchema = z.strictObject({
  access: z.string().nullable(),
  refresh: z.string().nullable(),
  isRefused: z.boolean(),
});

/** An access token alone is kept as it is: it never begins with a brace. */
function keptText(kept: KeptToken): string {
  const isAlone = kept.refresh === null && !kept.isRefused && kept.access !== null;
  return isAlone ? String(kept.access) : JSON.stringify(kept);
}

/** Nothing for a text that is null or not ours. */
function readKept(text: string | null): KeptToken {
  if (text === null) return NOTHING;
  if (!text.startsWith('{')) return { ...NOTHING, access: text };
  return keptSchema.safeParse(JSON.parse(text)).data ?? NOTHING;
}

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** How the tokens of one credential are kept in a store that others can read. */
interface TokenSeal {
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
