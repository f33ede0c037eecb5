// The dependencies and settings that every step of a sync receives, per source and per resource.
import type { RequestContext } from '../checks/listing-scan.ts';
import type { Profile } from '../config/profile/profile.ts';
import { readTables } from '../database/state/catalog.ts';
import type { OwnedResource, OwnedResources } from '../database/state/owned-resource.ts';
import type { Warehouse } from '../database/warehouse.ts';
import { type ApiClient, newMeter, type RequestMeter } from '../http/client.ts';
import type { CopiedProfile, LoadContext } from '../load/load-context.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, DeferredError, SyncError } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import type { ListingTarget } from '../pagination/page-styles/listing-request.ts';
import type { FieldKinds } from '../rows/records/record-difference.ts';

/** More deletes than this in one scan, or within 24 hours, are held until an operator decides. */
export interface DeleteLimits {
  max_rows: number;
  /** Part of the live rows, 0..1. */
  max_part: number;
}

/**
 * How many deletes are accepted at once, for how many milliseconds a listing may be late (null: as the profile has it),
 * and for how many days deleted rows are kept (null: for ever).
 */
type DeleteSettings = DeleteLimits & { settle: number | null; keep_days: number | null };

/** Facts about a source that all its resources share. */
interface SourceFacts {
  /** The credential in use, as a hash: under another one than the last full scan's, a 404 proves nothing. */
  credential: string;
  deletes: DeleteSettings;
  /** Removes secrets from a text before it is stored. */
  scrub: (text: string) => string;
}

/** One source, as `app.ts` passes it to runs and re-fetches. */
export interface SourceContext extends SourceFacts {
  /** Stored in `_sync_runs` and in rejects. */
  runId: string;
  profile: Profile & CopiedProfile;
  listing: ListingTarget;
  warehouse: Warehouse;
  ownedResources: OwnedResources;
  client: ApiClient;
  clock: Clock;
  /** What is known about the paths of single records, by resource. */
  proofs: Map<string, ItemProof>;
}

/** Context of a step of syncing one resource: for loading (`LoadContext`), and for requests (`RequestContext`). */
export interface ResourceContext extends LoadContext, RequestContext, SourceFacts {
  /** What is known about the path of single records. */
  proof: ItemProof;
  /** Max pages in flight, if the page style allows it. */
  runAhead: number;
}

/** `meter` counts the requests; `signal` ends them. Throws `ConfigError` if the profile has no such resource. */
export function resourceContext(
  { profile: whole, proofs, ...source }: SourceContext,
  owned: OwnedResource,
  { meter, signal }: { meter: RequestMeter; signal: AbortSignal },
): ResourceContext {
  const profile = whole.resources[owned.resource];
  if (profile === undefined) {
    const hint = `it has ${Object.keys(whole.resources).join(', ')}`;
    throw new ConfigError('usage', `the profile has no resource "${owned.resource}"`, { hint });
  }
  const unknown = { at: -Infinity, control: null, fault: null, comparing: Promise.resolve(), lookup: null };
  const proof: ItemProof = proofs.get(owned.resource) ?? { ...unknown, fields: new Map() };
  proofs.set(owned.resource, proof);
  return { ...source, owned, profile, whole, signal, meter, proof, runAhead: whole.http.concurrency };
}

/**
 * Runs `work` as the owner of a resource, with its tables read; and again if the database was set back meanwhile.
 * Throws `SyncError('lease_held')` if another process owns it, and what `work` throws. After `lease_lost` the resource
 * is acquired again if possible.
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
    await owned.runAlone(async () => {
      owned.shape ??= await readTables(source.warehouse, resource);
    });
    try {
      return await work(context);
    } catch (error) {
      if (!(await owned.recover(error))) throw error;
      return await work(context);
    }
  } catch (error) {
    // If another process keeps it, the next `acquire` reports that.
    if (error instanceof SyncError && error.code === 'lease_lost') await owned.reacquire().catch(() => undefined);
    throw error;
  } finally {
    await owned.release();
  }
}

/** Records on the first pages of a listing. */
export interface Lookup {
  records: ReadonlyMap<string, SourceRecord>;
  /** Keys of records that the listing shows as deleted. */
  tombstones: ReadonlySet<string>;
  /** Local epoch milliseconds just before its first page was requested. */
  requestedAt: number;
  /** True if it was read to its end, was not empty and all records had an id: no other record is listed. */
  isFullListing: boolean;
}

/** What is known about the path of single records; shared by all callers until the process ends. */
export interface ItemProof {
  /** When an existing record was last requested; local epoch milliseconds. Every caller may advance it. */
  at: number;
  /** A control request in progress, and when it began. */
  control: { since: number; verdict: Promise<string | null> } | null;
  /** The fields that were the same in the listing and in a record that was fetched individually. */
  fields: FieldKinds;
  /**
   * How an individually fetched record differed from the listed one, and when that was found; null if none did.
   * `isMore`: it only has further fields, so that it still shows whether the record exists.
   */
  fault: { detail: string; isMore: boolean; at: number } | null;
  /** Comparisons with the listing run one after the other, because the first often answers the others as well. */
  comparing: Promise<unknown>;
  lookup: { partition: string | null; startedAt: number; since: number | null; found: Promise<Lookup> } | null;
}

/** True for an error of one request, false for one after which the run itself cannot continue. */
export function isOfRequest(error: unknown): error is SyncError {
  return error instanceof SyncError && !(error instanceof DeferredError) && error.code !== 'interrupted';
}
