import type { ListingTarget } from '../extract/page-styles/listing-request.ts';
import type { RequestContext } from '../checks/listing-walk.ts';
import type { NoticeBoard } from '../extract/service-notices.ts';
import { newMeter, type ApiClient, type RequestMeter } from '../http/client.ts';
import type { CopiedProfile, LoadContext } from '../load/load-context.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { Profile } from '../source/profile.ts';
import { readTables } from '../state/column-catalog.ts';
import type { OwnedResource, OwnedResources } from '../state/owned-resource.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { DeleteLimits } from './deletes/delete-limits.ts';
import { itemProof, type ItemProof } from './item/proof.ts';

/**
 * How many deletes are accepted at once, for how many milliseconds a listing may be late (null: as the profile has it),
 * and for how many days deleted rows are kept (null: for ever).
 */
type DeleteSettings = DeleteLimits & { settle: number | null; keep_days: number | null };

/** One source, as a run and a re-fetch get it from `app.ts`. */
export interface SourceContext {
  /** Stands in `_sync_runs` and in rejects. */
  runId: string;
  profile: Profile & CopiedProfile;
  listing: ListingTarget;
  warehouse: Warehouse;
  ownedResources: OwnedResources;
  client: ApiClient;
  clock: Clock;
  /** The credential in use, as a hash: under another one than the last whole walk's, a 404 proves nothing. */
  credential: string;
  deletes: DeleteSettings;
  /** Takes secrets out of a text before it is stored. */
  scrub: (text: string) => string;
  /** What the service says of the end of its API. */
  notices: Pick<NoticeBoard, 'since'>;
}

/** Context of every step of syncing one resource: for loading, and for requests to the service. */
export interface ResourceContext
  extends LoadContext, RequestContext, Pick<SourceContext, 'credential' | 'deletes' | 'scrub' | 'notices'> {
  /** Knowledge about the path of single records. */
  proof: ItemProof;
  /** Most pages in flight at once, if the page style allows it. */
  runAhead: number;
  /** Pages that are asked for beside them, and wait for the slot of the next one that ends. */
  inLine: number;
}

const MOST_IN_LINE = 2;

/** `meter` counts the requests; `signal` ends them. Throws `ConfigError` if the profile has no such resource. */
export function resourceContext(
  { profile: whole, warehouse, client, listing, clock, runId, credential, deletes, scrub, notices }: SourceContext,
  owned: OwnedResource,
  { meter, signal }: { meter: RequestMeter; signal: AbortSignal },
): ResourceContext {
  const profile = whole.resources[owned.resource];
  if (profile === undefined) {
    const hint = `it has ${Object.keys(whole.resources).join(', ')}`;
    throw new ConfigError('usage', `the profile has no resource "${owned.resource}"`, { hint });
  }
  const load = { warehouse, owned, profile, whole, runId, clock, signal };
  const proof = itemProof(client, owned.resource);
  const runAhead = whole.http.concurrency;
  return {
    ...load,
    client,
    listing,
    meter,
    credential,
    deletes,
    scrub,
    notices,
    proof,
    runAhead,
    inLine: MOST_IN_LINE,
  };
}

/**
 * Runs `work` as the owner of a resource, with its tables read; and again if the database was set back meanwhile.
 * Throws `SyncError('lease_held')` if another process owns it, and what `work` throws. After `lease_lost` the resource
 * is acquired anew if possible.
 */
export async function withResource<T>(
  source: SourceContext,
  resource: string,
  signal: AbortSignal,
  work: (context: ResourceContext) => Promise<T>,
): Promise<T> {
  const owned = await source.ownedResources.acquire(resource);
  try {
    const context = resourceContext(source, owned, { meter: newMeter(), signal });
    await owned.takeTurn(async () => {
      owned.shape ??= await readTables(source.warehouse, resource);
    });
    try {
      return await work(context);
    } catch (error) {
      if (!(await owned.recover(error))) throw error;
      return await work(context);
    }
  } catch (error) {
    // If another process owns it for good, the next `acquire` reports that.
    if (isLost(error)) await owned.reacquire().catch(() => undefined);
    throw error;
  } finally {
    await owned.release();
  }
}

function isLost(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'lease_lost';
}
