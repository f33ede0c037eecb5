import type { RequestMeter } from '../http/client.ts';
import type { DeleteLimits } from './deletes/delete-limits.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import { itemProof, type ItemContext } from './item/proof.ts';
import type { RunOptions } from './run-options.ts';

/** What deleting records of one resource needs. */
export interface DeleteContext extends ItemContext {
  limits: DeleteLimits;
  /** Milliseconds by which the listing may be late: a row that is younger may still be missing in it. */
  settleMs: number;
  /** The credential in use, as a hash: under another one than the last whole walk's, a 404 proves nothing. */
  credential: string;
}

/** What a run and a re-fetch have at hand. */
export type DeleteParts = Pick<
  RunOptions,
  'warehouse' | 'profile' | 'listing' | 'client' | 'clock' | 'credential' | 'deletes' | 'runId'
>;

/** Where neither the settings nor a filter of the profile say how late a listing may be. */
const USUAL_SETTLE_MS = 600_000;

/** `meter` counts what is asked for; `signal` ends it. */
export function deleteContext(
  parts: DeleteParts,
  owned: OwnedResource,
  { meter, signal }: { meter: RequestMeter; signal: AbortSignal },
): DeleteContext {
  const { warehouse, clock, credential, client, listing } = parts;
  const profile = parts.profile.resources[owned.resource];
  if (profile === undefined) throw new Error(`the profile has no resource ${owned.resource}`);
  const proof = itemProof(client, owned.resource);
  const item = { client, listing, profile, meter, signal };
  const settleMs = parts.deletes.settle ?? profile.incremental?.overlap ?? USUAL_SETTLE_MS;
  return { warehouse, owned, profile, clock, limits: parts.deletes, settleMs, credential, item, proof };
}
