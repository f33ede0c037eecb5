// Verifies that a record which was fetched individually equals the listed one, loads it, or finds it in the listing.
//
// `GET /posts/7` may return other fields than the listing of posts, or another record altogether. Its row would change with
// every webhook and change back with every scan. So a fetched record is compared with listed ones first.
import { compareWithItem, recordIn } from '../checks/item.ts';
import { type ExtraQuery, filterQuery, keyIn, listingScan, withPartition } from '../checks/listing-scan.ts';
import { sinceValue } from '../checks/since.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { forgetDeleteCandidates } from '../database/state/suspects.ts';
import { currentBodies } from '../database/state/versions.ts';
import { openPageLoader, type PageOutcome } from '../load/page-loader.ts';
import type { OlderPolicy } from '../load/prepare-page.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import type { Lane } from '../model/vocabulary.ts';
import { isNumbered } from '../pagination/page-styles/page-styles.ts';
import { keyParts } from '../pagination/read-item.ts';
import { scanPages } from '../pagination/scan-pages.ts';
import { parseInstant } from '../rows/columns/cells.ts';
import { tombstoneOf, updatedTime, updatedZone } from '../rows/columns/updated-time.ts';
import { recordsPassingFilter, storedValue } from '../rows/records/as-record.ts';
import { addFieldKinds, differenceText, fieldKindsOf, findUnverifiedField } from '../rows/records/record-difference.ts';
import { sameJson } from '../rows/records/record-key.ts';
import type { Lookup, ResourceContext } from './resource-context.ts';
import { judgeScan } from './scan/judge-scan.ts';

/** A record of the service, and when it was requested (local epoch milliseconds). */
export interface FoundRecord {
  record: SourceRecord;
  requestedAt: number;
}

/** Loads one record like any other, and forgets that it was a delete candidate. Throws what loading throws. */
export async function loadRecord(
  context: ResourceContext,
  key: string,
  { record, requestedAt }: FoundRecord,
  policy: OlderPolicy,
): Promise<PageOutcome> {
  const { warehouse, owned } = context;
  // Opened for each record, because a scan may have changed the tables meanwhile; that costs one small query.
  const loader = await openPageLoader(context, policy);
  return loader.load({ records: [record], requestedAt }, () =>
    forgetDeleteCandidates(warehouse.own, owned.resource, [key]),
  );
}

/** Listed records that are fetched individually before a field counts as unverified. */
const MAX_CONTROLS = 3;
/** For this long a path that returned other records is not tried again. */
const FAULT_LASTS_MS = 600_000;

/**
 * Returns why a record that was fetched individually may not become a row; null if it is what the listing would show. It
 * is if it equals the stored record, or if all fields of both were seen to be the same in the listing and individually.
 * Otherwise the listing is requested: for this very record if there is a filter, else for some that are then fetched
 * individually. With `accept: [item]` every record is accepted. Throws what a request throws.
 */
export async function checkItemReading(
  context: ResourceContext,
  key: string,
  record: SourceRecord,
  lane: Lane,
): Promise<string | null> {
  const mismatch = await findMismatch(context, key, record, lane);
  return context.profile.accept.includes('item') ? null : mismatch;
}

/** Throws `item_unproved` if a record that was fetched individually may differ from what the listing would show. */
export async function refuseUnverifiedItem(
  context: ResourceContext,
  key: string,
  { record, requestedAt }: FoundRecord,
  lane: Lane,
): Promise<void> {
  context.proof.at = Math.max(context.proof.at, requestedAt);
  const mismatch = await checkItemReading(context, key, record, lane);
  if (mismatch === null) return;
  throw new SyncError('item_unproved', mismatch, {
    recovery: 'stop',
    hint: 'content-sync check compares records read alone with the listed ones',
  });
}

async function findMismatch(
  context: ResourceContext,
  key: string,
  record: SourceRecord,
  lane: Lane,
): Promise<string | null> {
  const { proof, profile, clock, warehouse, owned } = context;
  const body = (await currentBodies(warehouse.own, owned.resource, [key])).get(key);
  const stored = body === undefined ? null : storedValue(body, profile);
  const fetchedKinds = fieldKindsOf(record.value);
  if (stored !== null && sameJson(stored, record.value)) {
    addFieldKinds(proof.fields, fetchedKinds);
    return null;
  }
  const storedKinds = stored === null ? null : fieldKindsOf(stored);
  const unverified = (): string | null => findUnverifiedField(proof.fields, fetchedKinds, storedKinds);
  const knownVerdict = (): string | null | undefined => {
    const { fault } = proof;
    if (fault !== null) return clock.now() - fault.at < FAULT_LASTS_MS ? fault.detail : undefined;
    return unverified() === null ? null : undefined;
  };
  const known = knownVerdict();
  if (known !== undefined) return known;
  // Comparisons run one after the other, because the first often decides the others as well.
  const compare = async (): Promise<string | null> =>
    knownVerdict() ?? compareWithListed(context, { key, record, lane }, unverified);
  const comparing = proof.comparing.then(compare, compare);
  proof.comparing = comparing.catch(() => undefined);
  return comparing;
}

/** Compares the record, and a few others, with the listing. Returns why the record may not become a row, or null. */
async function compareWithListed(
  context: ResourceContext,
  { key, record, lane }: { key: string; record: SourceRecord; lane: Lane },
  unverified: () => string | null,
): Promise<string | null> {
  const { proof, profile, clock } = context;
  const updated = updatedTime(record.value, profile)?.text ?? null;
  const { records, extraQuery } = await listChangedSince(context, key, updated, lane);
  const listedSelf = recordIn(records, profile, key);
  for (const each of [...(listedSelf === undefined ? [] : [listedSelf]), ...chooseControls(records, profile, key)]) {
    const listed = { key: keyIn(each.value, profile) ?? '', listed: each.value };
    const found = await compareWithItem(
      context,
      { lane, extraQuery },
      listed,
      each === listedSelf ? record.value : undefined,
    );
    if (found.is === 'other' || found.is === 'more') {
      const isMore = found.is === 'more';
      const what = isMore ? 'has further fields' : 'is not the listed one';
      const detail = `record ${listed.key} read alone ${what}: ${differenceText(found.differences)}`;
      proof.fault = { detail, isMore, at: clock.now() };
      return detail;
    }
    if (found.is !== 'same') continue;
    proof.fault = null;
    addFieldKinds(proof.fields, fieldKindsOf(found.value));
    if ((each === listedSelf && sameJson(found.value, record.value)) || unverified() === null) return null;
  }
  return `no listed record has shown that ${unverified() ?? 'it'} is the same when it is read alone`;
}

/** Chooses other records, which show whether single records are like listed ones. */
function chooseControls(records: readonly SourceRecord[], profile: ResourceProfile, key: string): SourceRecord[] {
  const others = records.filter(({ value }) => ![null, key].includes(keyIn(value, profile)));
  const chosen = [others.at(0), others.at(-1), others.at(others.length >> 1)].filter((each) => each !== undefined);
  return [...new Set(chosen)].slice(0, MAX_CONTROLS);
}

/** The live records on the first page of what has changed since a time of the service, and the request for them. */
async function listChangedSince(
  context: ResourceContext,
  key: string,
  updated: string | null,
  lane: Lane,
): Promise<{ records: readonly SourceRecord[]; extraQuery: ExtraQuery }> {
  const { profile } = context;
  const { incremental } = profile;
  const since =
    incremental === null || updated === null ? null : sinceValue(updated, incremental, null, updatedZone(profile));
  const extraQuery = withPartition(profile, key, filterQuery(profile, since));
  for await (const { records } of scanPages(listingScan(context, lane, extraQuery))) {
    return { records: records.filter(({ value }) => tombstoneOf(value, profile) === null), extraQuery };
  }
  return { records: [], extraQuery };
}

/** Pages that are requested to find a record: what is not decided by then waits for a complete scan. */
const MAX_PAGES = 5;

/** Whether the listing shows a live record. `unknown`: the listing is too long to look for it now. */
export type ListingLookup =
  | { is: 'listed'; record: SourceRecord; requestedAt: number }
  | { is: 'unlisted' | 'unknown' };

/**
 * Requests the listing, after the time `after` (local epoch milliseconds), and says whether it shows a record. `updated`
 * is the time of change of its row as the service wrote it, or null: a listed record was changed then or later, so that a
 * filtered listing shows it as well. Throws what keeps the service from responding at all.
 */
export async function findInListing(
  context: ResourceContext,
  { key, updated, after }: { key: string; updated: string | null; after: number },
  lane: Lane,
): Promise<ListingLookup> {
  const since = await lookupSince(context, updated);
  if (since === undefined) return { is: 'unknown' };
  const { records, tombstones, requestedAt, isFullListing } = await sharedLookup(context, { key, since, after }, lane);
  const record = records.get(key);
  if (record !== undefined) return { is: 'listed', record, requestedAt };
  return { is: isFullListing || tombstones.has(key) ? 'unlisted' : 'unknown' };
}

/** The filter's value; null for the whole listing, if that is short enough; undefined if neither is possible. */
async function lookupSince(
  { warehouse, owned, profile }: ResourceContext,
  updated: string | null,
): Promise<string | null | undefined> {
  const table = owned.shape?.tables[0];
  const live = table === undefined ? 0 : await warehouse.rows.count(table.name);
  if (live <= maxRecords(profile)) return null;
  if (profile.incremental === null || updated === null) return undefined;
  const cursor = (await readCheckpoint(warehouse.own, owned.resource))?.cursor ?? updated;
  return sinceValue(updated, profile.incremental, null, updatedZone(profile), cursor) ?? undefined;
}

/** Numbered pages may move between two requests, so that only a single one shows anything. */
function maxRecords({ page }: ResourceProfile): number {
  return page.size * (isNumbered(page) ? 1 : MAX_PAGES);
}

/** One lookup serves all callers whose record it must show and who asked before it began. */
async function sharedLookup(
  context: ResourceContext,
  { key, since, after }: { key: string; since: string | null; after: number },
  lane: Lane,
): Promise<Lookup> {
  const { proof, clock, profile } = context;
  const { partition } = keyParts(profile, key);
  const known = proof.lookup?.partition === partition ? proof.lookup : null;
  const from = since === null ? null : (parseInstant(/^\d+$/.test(since) ? Number(since) : since)?.epochMs ?? null);
  const serves =
    known !== null && known.startedAt >= after && (known.since === null || (from !== null && known.since <= from));
  if (serves) return known.found;
  const started = { partition, startedAt: clock.now(), since: from, found: lookup(context, key, since, lane) };
  proof.lookup = started;
  try {
    return await started.found;
  } finally {
    if (proof.lookup === started) proof.lookup = null;
  }
}

/** Reads the first pages of the listing. */
async function lookup(context: ResourceContext, key: string, since: string | null, lane: Lane): Promise<Lookup> {
  const { profile, clock, signal } = context;
  const found = { records: new Map<string, SourceRecord>(), tombstones: new Set<string>() };
  let requestedAt = clock.now();
  let haveKeys = true;
  try {
    for await (const page of scanPages(
      listingScan(context, lane, withPartition(profile, key, filterQuery(profile, since))),
    )) {
      if (page.number === 1) requestedAt = page.requestedAt;
      for (const record of recordsPassingFilter(page.records)) {
        const listedKey = keyIn(record.value, profile);
        if (listedKey === null) haveKeys = false;
        else if (tombstoneOf(record.value, profile) === null) found.records.set(listedKey, record);
        else found.tombstones.add(listedKey);
      }
      if (page.end !== null) {
        const { isComplete } = judgeScan(page.end, profile, null);
        return { ...found, requestedAt, isFullListing: isComplete && haveKeys && found.records.size > 0 };
      }
      if (Math.max(page.total ?? 0, page.number * profile.page.size + 1) > maxRecords(profile)) break;
    }
  } catch (error) {
    signal.throwIfAborted();
    // A scan reports pages that cannot be trusted.
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'stop') throw error;
  }
  return { ...found, requestedAt, isFullListing: false };
}
