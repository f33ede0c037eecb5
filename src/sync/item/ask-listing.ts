import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import { walk } from '../../extract/walk.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import { judgeEnd } from '../walk/prove-end.ts';
import { sinceValue } from '../cursor/since.ts';
import { keyIn } from './compare-alone.ts';
import type { ItemContext, Lookup } from './proof.ts';

/** Pages that are asked for at most: what is not decided by then waits for a whole walk. */
const MOST_PAGES = 5;

/** The listing's word on one record. `unknown`: the listing is too long to look for it now. */
export type ListingWord =
  | { is: 'listed'; record: SourceRecord; requestedAt: number }
  | { is: 'unlisted' }
  | { is: 'unknown' };

/**
 * Whether the listing shows a record now, asked for after `after` (local epoch milliseconds). `updated` is the time of
 * change of its row as the service wrote it, null where that is not known: a record that is listed was changed then or
 * later, so that a filtered listing shows it as well. Throws what keeps the service from answering at all.
 */
export async function askListing(
  context: ItemContext,
  { key, updated, after }: { key: string; updated: string | null; after: number },
  lane: Lane,
): Promise<ListingWord> {
  const since = await sinceFor(context, updated);
  if (since === undefined) return { is: 'unknown' };
  const found = await sharedLookup(context, { since, after }, lane);
  const record = found.records.get(key);
  if (record !== undefined) return { is: 'listed', record, requestedAt: found.requestedAt };
  return { is: found.isWhole ? 'unlisted' : 'unknown' };
}

/** The filter's value; null for the whole listing, which is short enough; undefined where neither will do. */
async function sinceFor(
  { warehouse, owned, profile }: ItemContext,
  updated: string | null,
): Promise<string | null | undefined> {
  const table = owned.shape?.tables[0];
  const live = table === undefined ? 0 : await warehouse.count(table.name);
  if (live <= mostRecords({ profile })) return null;
  if (profile.incremental === null || updated === null) return undefined;
  return sinceValue(updated, profile.incremental, null) ?? undefined;
}

/** Numbered pages may move between two requests, so that only a single one tells anything. */
function mostRecords({ profile }: Pick<ItemContext, 'profile'>): number {
  return profile.page.size * (isNumbered(profile.page) ? 1 : MOST_PAGES);
}

/** One look serves all whose record it must show and who have asked before it began. */
async function sharedLookup(
  context: ItemContext,
  { since, after }: { since: string | null; after: number },
  lane: Lane,
): Promise<Lookup> {
  const { proof, clock } = context;
  const known = proof.looking;
  const from = since === null ? null : (parseInstant(/^\d+$/.test(since) ? Number(since) : since)?.epochMs ?? null);
  const serves =
    known !== null && known.startedAt >= after && (known.since === null || (from !== null && known.since <= from));
  if (serves) return known.found;
  const looking = { startedAt: clock.now(), since: from, found: lookup(context, since, lane) };
  proof.looking = looking;
  try {
    return await looking.found;
  } finally {
    if (proof.looking === looking) proof.looking = null;
  }
}

async function lookup(context: ItemContext, since: string | null, lane: Lane): Promise<Lookup> {
  const { profile, item, clock } = context;
  const records = new Map<string, SourceRecord>();
  let requestedAt = clock.now();
  let isNamed = true;
  try {
    for await (const page of walk({ ...listingOf(context, since), lane })) {
      if (page.number === 1) requestedAt = page.requestedAt;
      for (const record of page.records) {
        const key = keyIn(record.value, profile);
        if (key === null) isNamed = false;
        else records.set(key, record);
      }
      if (page.end !== null) {
        const isProved = judgeEnd(page.end, profile, { former: null, behind: null }).isProved;
        return { records, requestedAt, isWhole: isProved && isNamed && records.size > 0 };
      }
      const isLong = Math.max(page.total ?? 0, page.number * profile.page.size + 1) > mostRecords(context);
      if (isLong) break;
    }
  } catch (error) {
    item.signal.throwIfAborted();
    // Pages that cannot be trusted say nothing; a walk tells of them.
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'stop') throw error;
  }
  return { records, requestedAt, isWhole: false };
}

/** The records that a filtered listing shows first: those that have changed since a moment, as the service wrote it. */
export async function changedSince(
  context: ItemContext,
  updated: string | null,
  lane: Lane,
): Promise<{ records: readonly SourceRecord[]; extraQuery: Readonly<Record<string, string>> }> {
  const { incremental } = context.profile;
  const since = incremental === null || updated === null ? null : sinceValue(updated, incremental, null);
  const asked = listingOf(context, since);
  for await (const { records } of walk({ ...asked, lane })) return { records, extraQuery: asked.extraQuery };
  return { records: [], extraQuery: asked.extraQuery };
}

function listingOf({ profile, item, clock }: ItemContext, since: string | null) {
  const { client, listing, meter, signal } = item;
  const { incremental } = profile;
  const extraQuery: Record<string, string> =
    since === null || incremental === null ? {} : { [incremental.param]: since };
  return {
    client,
    resource: profile,
    listing,
    meter,
    signal,
    clock,
    extraQuery,
    runAhead: 0,
    acceptsEnd: profile.accept.includes('end'),
  };
}
