// Works on single records between two scans, after a webhook or before a delete: verifies that a record which was fetched
// individually equals the listed one (`checkItemReading`), loads it, or looks for it in the listing (`findInListing`).
//
// `GET /posts/7` may return other fields than the listing of posts, or another record altogether. Its row would change with
// every webhook and change back with every scan. So a fetched record is compared with listed ones first.
import { compareWithItem, recordIn } from '../checks/item.ts';
import { listingScan } from '../checks/listing-scan.ts';
import { type ExtraQuery, filterQuery, withPartition } from '../pagination/requests/filter-query.ts';
import { sinceValue } from '../pagination/requests/filter-query.ts';
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
import { sameJson, keyIn } from '../rows/records/record-key.ts';
import type { Lookup, ResourceContext } from './resource-context.ts';
import { judgeScan } from './scan/judge-scan.ts';

/** A record of the service, and when it was requested (local epoch milliseconds). */
export interface FoundRecord {
  record: SourceRecord;
  requestedAt: number;
}

/** Loads one record as a page of its own, and forgets that it was a delete candidate. Throws what loading throws. */
export async function loadRecord(
  context: ResourceContext,
  key: string,
  { record, requestedAt }: FoundRecord,
  policy: OlderPolicy,
): Promise<PageOutcome> {
  const { warehouse, owned } = context;
  // A loader per record costs one small query, but a scan may have changed the tables since the last record.
  const loader = await openPageLoader(context, policy);
  return loader.load({ records: [record], requestedAt }, () =>
    forgetDeleteCandidates(warehouse.own, owned.resource, [key]),
  );
}

/** How many listed records are fetched individually before a field counts as unverified. */
const MAX_SAMPLES = 3;
/** For this long, a path that returned a different record counts as wrong without another comparison. */
const FAULT_LASTS_MS = 600_000;

/**
 * Returns why a record that was fetched individually may not become a row; null if the listing would show the same. That
 * is known:
 * 1. if the record equals the stored one;
 * 2. if earlier comparisons have shown all its fields to be the same in the listing and individually;
 * 3. otherwise from the listing: this record is requested there by the filter for changes, if there is one, and up to
 *    three other listed records are fetched individually.
 * With `accept: [item]` every record is accepted. Throws what a request throws.
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
  const unverifiedField = (): string | null => findUnverifiedField(proof.fields, fetchedKinds, storedKinds);
  /** What earlier comparisons say of the record; null if they do not decide it. */
  const earlierResult = (): { mismatch: string | null } | null => {
    const { fault } = proof;
    if (fault !== null) return clock.now() - fault.at < FAULT_LASTS_MS ? { mismatch: fault.detail } : null;
    return unverifiedField() === null ? { mismatch: null } : null;
  };
  const known = earlierResult();
  if (known !== null) return known.mismatch;
  // Comparisons run one after the other, because the result of the first often decides the others.
  const compare = async (): Promise<string | null> =>
    earlierResult()?.mismatch ?? compareWithListed(context, { key, record, lane }, unverifiedField);
  const comparing = proof.comparing.then(compare, compare);
  proof.comparing = comparing.catch(() => undefined);
  return comparing;
}

/**
 * Compares the record, and a few others, with the listing. Returns why the record may not become a row, or null.
 * `unverifiedField` names a field of it that no comparison has shown to be the same; null once all are.
 */
async function compareWithListed(
  context: ResourceContext,
  { key, record, lane }: { key: string; record: SourceRecord; lane: Lane },
  unverifiedField: () => string | null,
): Promise<string | null> {
  const { proof, profile, clock } = context;
  const updated = updatedTime(record.value, profile)?.text ?? null;
  const { records, extraQuery } = await listChangedSince(context, key, updated, lane);
  const listedSelf = recordIn(records, profile, key);
  const compared = [listedSelf, ...chooseSamples(records, profile, key)].filter((each) => each !== undefined);
  for (const each of compared) {
    const listed = { key: keyIn(each.value, profile) ?? '', listed: each.value };
    const fetched = each === listedSelf ? record.value : undefined;
    const found = await compareWithItem(context, { lane, extraQuery }, listed, fetched);
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
    if ((each === listedSelf && sameJson(found.value, record.value)) || unverifiedField() === null) return null;
  }
  return `no listed record has shown that ${unverifiedField() ?? 'it'} is the same when it is read alone`;
}

/** Chooses other listed records, which show whether individually fetched records are like listed ones. */
function chooseSamples(records: readonly SourceRecord[], profile: ResourceProfile, key: string): SourceRecord[] {
  const others = records.filter(({ value }) => ![null, key].includes(keyIn(value, profile)));
  const chosen = [others.at(0), others.at(-1), others.at(others.length >> 1)].filter((each) => each !== undefined);
  return [...new Set(chosen)].slice(0, MAX_SAMPLES);
}

/** Requests the first page of what has changed since `updated`. Returns its live records and the request. */
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

/** How many pages are requested to find a record. If it is on none of them, only a complete scan can tell. */
const MAX_PAGES = 5;

/** Whether the listing has a live record. `unknown`: the listing is too long to look for it now. */
export type ListingLookup =
  | { is: 'listed'; record: SourceRecord; requestedAt: number }
  | { is: 'unlisted' | 'unknown' };

/**
 * Looks for a record in the listing, before its row is deleted. The listing must have been requested after the time
 * `after` (local epoch milliseconds). `updated` is the time of change of the row as the service wrote it, or null: if the
 * record still exists, it was changed then or later, so the filter for changes lists it too. Throws if the service does
 * not respond.
 */
export async function findInListing(
  context: ResourceContext,
  { key, updated, after }: { key: string; updated: string | null; after: number },
  lane: Lane,
): Promise<ListingLookup> {
  const since = await chooseFilterValue(context, updated);
  if (since === undefined) return { is: 'unknown' };
  const { records, tombstones, requestedAt, isFullListing } = await shareLookup(context, { key, since, after }, lane);
  const record = records.get(key);
  if (record !== undefined) return { is: 'listed', record, requestedAt };
  return { is: isFullListing || tombstones.has(key) ? 'unlisted' : 'unknown' };
}

/**
 * Returns the value of the filter for changes; null for the whole listing, if that is short enough; undefined if neither is
 * possible.
 */
async function chooseFilterValue(
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

/** Records may move between two numbered pages, so only a listing of a single such page is reliable. */
function maxRecords({ page }: ResourceProfile): number {
  return page.size * (isNumbered(page) ? 1 : MAX_PAGES);
}

/** Returns the lookup in progress if it began after `after` and must show the record; otherwise starts one. */
async function shareLookup(
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
  const started = { partition, startedAt: clock.now(), since: from, found: readFirstPages(context, key, since, lane) };
  proof.lookup = started;
  try {
    return await started.found;
  } finally {
    if (proof.lookup === started) proof.lookup = null;
  }
}

async function readFirstPages(
  context: ResourceContext,
  key: string,
  since: string | null,
  lane: Lane,
): Promise<Lookup> {
  const { profile, clock, signal } = context;
  const found = { records: new Map<string, SourceRecord>(), tombstones: new Set<string>() };
  let requestedAt = clock.now();
  let haveKeys = true;
  try {
    const extraQuery = withPartition(profile, key, filterQuery(profile, since));
    for await (const page of scanPages(listingScan(context, lane, extraQuery))) {
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
    // Here a faulty page only makes the result unknown: the next scan reports it.
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'stop') throw error;
  }
  return { ...found, requestedAt, isFullListing: false };
}
