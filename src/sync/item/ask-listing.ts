import { askedFor, type ExtraQuery, filterQuery, keyIn, listingWalk } from '../../checks/listing-walk.ts';
import { sinceValue } from '../../checks/since.ts';
import { isNumbered } from '../../pagination/page-styles/page-styles.ts';
import { keyParts } from '../../pagination/read-item.ts';
import { walk } from '../../pagination/walk.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { parseInstant } from '../../rows/columns/timestamps.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { takenIn } from '../../rows/records/as-record.ts';
import { tombstoneOf } from '../../rows/tombstone.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { proveWalk } from '../prove-walk.ts';
import type { Lookup, ResourceContext } from '../resource-context.ts';

/** Pages that are asked for at most: what is not decided by then waits for a whole walk. */
const MOST_PAGES = 5;

/** Whether the listing shows a record. `stated`: as deleted. `unknown`: the listing is too long to look for it now. */
export type ListingAnswer =
  | { is: 'listed' | 'stated'; record: SourceRecord; requestedAt: number }
  | { is: 'unlisted' }
  | { is: 'unknown' };

/**
 * Asks, after the moment `after` (local epoch milliseconds), whether the listing shows a record. `updated` is the time
 * of change of its row as the service wrote it, or null: a record that is listed was changed then or later, so that a
 * filtered listing shows it as well. Throws what keeps the service from answering at all.
 */
export async function askListing(
  context: ResourceContext,
  { key, updated, after }: { key: string; updated: string | null; after: number },
  lane: Lane,
): Promise<ListingAnswer> {
  const since = await sinceFor(context, updated);
  if (since === undefined) return { is: 'unknown' };
  const found = await sharedLookup(context, { key, since, after }, lane);
  const record = found.records.get(key);
  if (record !== undefined) return { is: 'listed', record, requestedAt: found.requestedAt };
  const tombstone = found.tombstones.get(key);
  if (tombstone !== undefined) return { is: 'stated', record: tombstone, requestedAt: found.requestedAt };
  return { is: found.isWhole ? 'unlisted' : 'unknown' };
}

/** The filter's value; null for the whole listing, if that is short enough; undefined if neither is possible. */
async function sinceFor(
  { warehouse, owned, profile }: ResourceContext,
  updated: string | null,
): Promise<string | null | undefined> {
  const table = owned.shape?.tables[0];
  const live = table === undefined ? 0 : await warehouse.rows.count(table.name);
  if (live <= mostRecords({ profile })) return null;
  if (profile.incremental === null || updated === null) return undefined;
  const cursor = (await readCheckpoint(warehouse.own, owned.resource))?.cursor ?? updated;
  return sinceValue(updated, profile.incremental, null, updatedZone(profile), cursor) ?? undefined;
}

/** Numbered pages may move between two requests, so that only a single one tells anything. */
function mostRecords({ profile }: Pick<ResourceContext, 'profile'>): number {
  return profile.page.size * (isNumbered(profile.page) ? 1 : MOST_PAGES);
}

/** One lookup serves all callers whose record it must show and who asked before it began. */
async function sharedLookup(
  context: ResourceContext,
  { key, since, after }: { key: string; since: string | null; after: number },
  lane: Lane,
): Promise<Lookup> {
  const { proof, clock, profile } = context;
  const { partition } = keyParts(profile, key);
  const known = proof.looking?.partition === partition ? proof.looking : null;
  const from = since === null ? null : (parseInstant(/^\d+$/.test(since) ? Number(since) : since)?.epochMs ?? null);
  const serves =
    known !== null && known.startedAt >= after && (known.since === null || (from !== null && known.since <= from));
  if (serves) return known.found;
  const looking = { partition, startedAt: clock.now(), since: from, found: lookup(context, { key, since }, lane) };
  proof.looking = looking;
  try {
    return await looking.found;
  } finally {
    if (proof.looking === looking) proof.looking = null;
  }
}

async function lookup(
  context: ResourceContext,
  { key, since }: { key: string; since: string | null },
  lane: Lane,
): Promise<Lookup> {
  const { profile, clock, signal } = context;
  const records = new Map<string, SourceRecord>();
  const tombstones = new Map<string, SourceRecord>();
  let requestedAt = clock.now();
  let isNamed = true;
  try {
    for await (const page of walk(listingWalk(context, lane, askedFor(profile, key, filterQuery(profile, since))))) {
      if (page.number === 1) requestedAt = page.requestedAt;
      for (const record of takenIn(page.records)) {
        const key = keyIn(record.value, profile);
        if (key === null) isNamed = false;
        else (tombstoneOf(record.value, profile) === null ? records : tombstones).set(key, record);
      }
      if (page.end !== null) {
        const isProved = proveWalk(page.end, profile, null).isProved;
        return { records, tombstones, requestedAt, isWhole: isProved && isNamed && records.size > 0 };
      }
      const isLong = Math.max(page.total ?? 0, page.number * profile.page.size + 1) > mostRecords(context);
      if (isLong) break;
    }
  } catch (error) {
    signal.throwIfAborted();
    // Pages that cannot be trusted prove nothing; a walk reports them.
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'stop') throw error;
  }
  return { records, tombstones, requestedAt, isWhole: false };
}

/**
 * The live records that a filtered listing shows first: those that have changed since a moment, as the service wrote it.
 * Of several listings, that of the record with this key.
 */
export async function changedSince(
  context: ResourceContext,
  { key, updated }: { key: string; updated: string | null },
  lane: Lane,
): Promise<{ records: readonly SourceRecord[]; extraQuery: ExtraQuery }> {
  const { profile } = context;
  const { incremental } = profile;
  const since =
    incremental === null || updated === null ? null : sinceValue(updated, incremental, null, updatedZone(profile));
  const extraQuery = askedFor(profile, key, filterQuery(profile, since));
  for await (const { records } of walk(listingWalk(context, lane, extraQuery))) {
    return { records: records.filter(({ value }) => tombstoneOf(value, profile) === null), extraQuery };
  }
  return { records: [], extraQuery };
}
