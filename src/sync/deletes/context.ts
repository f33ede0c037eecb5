import type { ItemSource } from '../../extract/read-item.ts';
import type { RequestMeter } from '../../http/client.ts';
import type { Clock } from '../../model/clock.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import type { DeleteLimits } from './guard.ts';
import type { Holding } from '../holding.ts';
import type { RunOptions } from '../run-options.ts';

/** What is known of the path of single records: whether it leads anywhere. Shared by all who read them. */
export interface PathProof {
  /** When a record was last asked for that was there; local epoch milliseconds. Whoever reads one may put it forward. */
  at: number;
  /** A control reading that is under way, and since when. */
  asking: { since: number; verdict: Promise<string | null> } | null;
}

/** What deleting records of one resource needs. */
export interface DeleteContext {
  warehouse: Warehouse;
  holding: Holding;
  profile: ResourceProfile;
  clock: Clock;
  limits: DeleteLimits;
  /** The credential in use, as a hash: under another one than the last whole walk's, a 404 proves nothing. */
  credential: string;
  /** How records are read alone. */
  item: ItemSource;
  proof: PathProof;
}

/** What a run and a re-fetch have at hand. */
export type DeleteParts = Pick<
  RunOptions,
  'warehouse' | 'profile' | 'listing' | 'client' | 'clock' | 'credential' | 'deletes' | 'runId'
>;

/** One for all who work with a holding: what one of them has found out helps the others. */
const proofs = new WeakMap<Holding, PathProof>();

/** `meter` counts what is asked for; `signal` ends it. */
export function deleteContext(
  parts: DeleteParts,
  holding: Holding,
  { meter, signal }: { meter: RequestMeter; signal: AbortSignal },
): DeleteContext {
  const { warehouse, clock, credential, client, listing } = parts;
  const profile = parts.profile.resources[holding.resource];
  if (profile === undefined) throw new Error(`the profile has no resource ${holding.resource}`);
  const proof = proofs.get(holding) ?? { at: -Infinity, asking: null };
  proofs.set(holding, proof);
  const item = { client, listing, profile, meter, signal };
  return { warehouse, holding, profile, clock, limits: parts.deletes, credential, item, proof };
}
