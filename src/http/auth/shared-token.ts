import { randomUUID } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Coordination } from '../../warehouse/coordination.ts';
import type { IssuedToken } from './token-request.ts';
import type { TokenSeal } from './token-seal.ts';

/** Where several processes keep the tokens that they use together. */
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
 * Gives the token that all processes use, and asks the service for one only where there is none that this process has
 * not had yet: a service may end the former token with each new one, and two that ask by themselves would then throw
 * each other out for ever. To be called again once the last one can no longer be used, or soon cannot. Throws what
 * `request` and the store throw. As with a request of one's own, a token's life is told from when it was asked for.
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

/** Where somebody else was faster after all, theirs stays: what stands in the store is what all use. */
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
