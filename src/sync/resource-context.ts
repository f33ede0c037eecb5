// The dependencies and settings that each step of a sync receives: `SourceContext` for a source, `ResourceContext` for one
// of its resources. `withResource` acquires a resource, so that no other process syncs it at the same time.
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

/** The settings under `deletes`. */
interface DeleteSettings extends DeleteLimits {
  /** For how many milliseconds a listing may lack a new record; null: as the profile has it. */
  settle: number | null;
  /** For how many days deleted rows are kept; null: for ever. */
  keep_days: number | null;
}

/** Facts about a source that all its resources share. */
interface SourceFacts {
  /** Hash of the credential. Another one than that of the last full scan may not see all records. */
  credential: string;
  deletes: DeleteSettings;
  /** Removes secrets from a text before it is stored. */
  scrub: (text: string) => string;
}

/** A source, as `app.ts` passes it to runs and re-fetches. */
export interface SourceContext extends SourceFacts {
  /** Stored in `_sync_runs` and in rejects. */
  runId: string;
  profile: Profile & CopiedProfile;
  listing: ListingTarget;
  warehouse: Warehouse;
  ownedResources: OwnedResources;
  client: ApiClient;
  clock: Clock;
  /** Whether single records can be fetched, by resource. */
  proofs: Map<string, ItemProof>;
}

/** A resource that is synced: the context for loading (`LoadContext`) and for requests (`RequestContext`). */
export interface ResourceContext extends LoadContext, RequestContext, SourceFacts {
  /** Whether single records can be fetched. */
  proof: ItemProof;
  /** Max pages in flight, if the page style allows it. */
  runAhead: number;
}

/** Creates the context of a resource. Throws `ConfigError` if the profile has no such resource. */
export function createResourceContext(
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
 * Runs `work` as the owner of a resource, with its tables read. If the database loses commits meanwhile, as by a failover,
 * `work` runs again. Throws `SyncError('lease_held')` if another process owns the resource, and what `work` throws.
 */
export async function withResource<T>(
  source: SourceContext,
  resource: string,
  signal: AbortSignal,
  work: (context: ResourceContext) => Promise<T>,
): Promise<T> {
  const owned = await source.ownedResources.acquire(resource);
  try {
    const context = createResourceContext(source, owned, { meter: newMeter(), signal });
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
    // Other work in this process may still use the resource. If another process owns it now, the next `acquire` throws.
    if (error instanceof SyncError && error.code === 'lease_lost') await owned.reacquire().catch(() => undefined);
    throw error;
  } finally {
    await owned.release();
  }
}

/** Records on the first pages of a listing. */
export interface Lookup {
  records: ReadonlyMap<string, SourceRecord>;
  /** Keys of records that the listing marks as deleted. */
  tombstones: ReadonlySet<string>;
  /** Local epoch milliseconds just before its first page was requested. */
  requestedAt: number;
  /** True if these are all listed records: the listing was read to its end, was not empty and all records had an id. */
  isFullListing: boolean;
}

/**
 * Whether the path of single records (`item`) can be trusted: it may return other fields than the listing, or a 404 for
 * all records (`single-record.ts`). Shared by all callers until the process ends.
 */
export interface ItemProof {
  /** When the path last returned an existing record, in local epoch milliseconds. A 404 before that means a deleted record. */
  at: number;
  /** The request in progress for another record, which must exist (`verifyItemPath`), and when it began. */
  control: { since: number; verdict: Promise<string | null> } | null;
  /** The fields that were equal in a listed record and in the same record when it was fetched individually. */
  fields: FieldKinds;
  /**
   * How an individually fetched record differed from the listed one, and when; null if none did. `isMore` is true if it
   * only had further fields: then it still shows whether the record exists.
   */
  fault: { detail: string; isMore: boolean; at: number } | null;
  /** The comparison with the listing in progress. The next one waits for it, because its result may suffice. */
  comparing: Promise<unknown>;
  /** The search in the listing that is in progress, with its filter (`since`). Its result serves several callers. */
  lookup: { partition: string | null; startedAt: number; since: number | null; found: Promise<Lookup> } | null;
}

/** True for an error of one request; false for an error after which the run cannot continue. */
export function isOfRequest(error: unknown): error is SyncError {
  return error instanceof SyncError && !(error instanceof DeferredError) && error.code !== 'interrupted';
}
