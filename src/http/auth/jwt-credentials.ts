import type { Clock } from '../../model/clock.ts';
import type { PlanOf } from '../../source/auth.ts';
import { carried, queryNamesOf } from './carried.ts';
import { falsified, type Credentials } from './credentials.ts';
import type { Proof } from './proof.ts';
import { jwtMint, splitKey } from './jwt.ts';

/** The part of its life in which a JWT is used: clocks differ. */
const USED_PART = 0.8;

/** A JWT that is signed here. Throws `ConfigError` for a key that cannot sign. */
export function jwtCredentials(
  { scheme, secrets }: PlanOf<'jwt'>,
  clock: Clock,
  keeper: { forGood(secret: string): void; forAWhile(secret: string): void },
): Credentials {
  const { id, secret } =
    scheme.key_format === 'id:secret' ? splitKey(secrets.key) : { id: secrets.key_id ?? null, secret: secrets.key };
  const values = { key_id: id, client_id: null, username: secrets.username ?? null, scope: null, token_url: null };
  const mint = jwtMint(scheme, secret, values);
  keeper.forGood(secret);
  let made: { text: string; proof: Proof; at: number } | null = null;

  function current(): Proof {
    const now = clock.monotonic();
    const usedFor = scheme.reuse ? scheme.lifetime * USED_PART : 0;
    if (made !== null && now - made.at < usedFor) return made.proof;
    const text = mint(clock.now());
    // Within a second the same one comes again.
    if (text !== made?.text) keeper.forAWhile(text);
    made = { text, proof: text === made?.text ? made.proof : carried(scheme, text), at: now };
    return made.proof;
  }

  return {
    ready: async () => undefined,
    fresh: () => true,
    proof: current,
    falseProof: () => carried(scheme, falsified(mint(clock.now()))),
    queryNames: queryNamesOf(scheme),
    holdsUntil: () => Infinity,
    accepted: () => undefined,
    retry: () => void (made = null),
    renew(refused) {
      if (made?.proof !== refused) return 'doubted';
      // The service may have ended it, or its clock may differ.
      made = null;
      return scheme.reuse ? 'doubted' : 'none';
    },
  };
}
