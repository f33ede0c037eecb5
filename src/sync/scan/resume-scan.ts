// Resumes an interrupted scan from its stored pages, and lists the partitions of a resource.
import type { CompiledQuery } from 'kysely';
import { isNewestFirst } from '../../checks/filter.ts';
import { filterQuery } from '../../checks/listing-scan.ts';
import type { PartitionProfile } from '../../config/profile/request-fields.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { readTables } from '../../database/state/catalog.ts';
import { forgetSeen, readCheckpoint, readSeenPages, rememberSeen } from '../../database/state/checkpoints.ts';
import { lastScanStart } from '../../database/state/runs.ts';
import { resolveUnseenRejects } from '../../database/state/stored-rows.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import { fieldPathText } from '../../model/body-path.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { EarlierPage, EarlierPages } from '../../pagination/guards/pagination-state.ts';
import { loadPosition, type PagePosition, storePosition } from '../../pagination/page-styles/page-position.ts';
import type { Page } from '../../pagination/page.ts';
import { keyParts } from '../../pagination/read-item.ts';
import type { Partitions } from '../../pagination/scan-partitions.ts';
import { pathText } from '../../rows/columns/column-name.ts';
import { keyFingerprints } from '../../rows/records/record-key.ts';
import { SEVERAL_CREDENTIALS } from '../advance-checkpoint.ts';
import { startScan } from '../plan.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';

/**
 * Where a scan starts, and the pages that it has read before an interruption, so that it can tell whether its position
 * still holds and count distinct records. A scan whose pages are not stored begins again; of several listings only the
 * one in progress does.
 */
export async function resumeScan(
  context: ResourceContext,
  planned: CheckpointRow,
): Promise<{ start: CheckpointRow; from: PagePosition | null; before: EarlierPages }> {
  const { profile, clock } = context;
  const none: EarlierPages = { pages: [], hasAllPages: true, leastTotal: null };
  const { walk_position: stored, walk_mode: mode, walk_since: since } = planned;
  if (stored === null) return { start: planned, from: null, before: none };
  const restart = () => ({ start: startScan(planned, mode ?? 'full', since, clock.now()), from: null, before: none });
  // The newest records come first: a scan that reads only those begins again.
  if (isNewestFirst(profile) && mode === 'incremental') return restart();
  const from = loadPosition(stored, profile.query, filterQuery(profile, since).values ?? {});
  const { listing } = from;
  const pages = await readPages(context, planned, listing?.partition);
  if (listing === undefined && pages.length < planned.walk_pages) return restart();
  // Of several listings, only the one in progress begins again if none of its pages are stored (an empty
  // `url` is the beginning of a listing).
  const leastTotal = listing === undefined ? planned.walk_total : listing.leastTotal;
  if (listing === undefined || pages.length > 0 || from.url === '') {
    return { start: planned, from, before: { pages, hasAllPages: true, leastTotal } };
  }
  return { start: planned, from: { url: '', listing: { ...listing, leastTotal: null } }, before: none };
}

/** The stored pages of a scan; of several listings those of one. */
async function readPages(
  { warehouse, profile }: ResourceContext,
  { resource, walk_started_at: startedAt, walk_since: since }: CheckpointRow,
  partition: string | undefined,
): Promise<EarlierPage[]> {
  if (startedAt === null) return [];
  const values = filterQuery(profile, since).values ?? {};
  const pages: EarlierPage[] = [];
  for await (const { ids, unkeyed, position: stored } of readSeenPages(warehouse.own, resource, startedAt)) {
    const position = stored === null ? null : loadPosition(stored, profile.query, values);
    if (position?.listing?.partition !== partition) continue;
    // Only the position of a numbered page is stored in full; the keys of other pages count too.
    pages.push({ position: position === null || position.url === '' ? null : position, keys: ids, unkeyed });
  }
  return pages;
}

/** A page about to be committed. */
interface CommittedPage {
  page: Page;
  facts: PageFacts;
  /** The checkpoint before it. */
  before: CheckpointRow;
  /** Null before the last page. */
  verdict: { isComplete: boolean; allowsDeletes: boolean } | null;
}

/** The statements in a page's transaction that store its keys, and forget other scans and those that are done. */
export function seenStatements(
  { warehouse: { own }, profile, scrub }: ResourceContext,
  { page, facts, before, verdict }: CommittedPage,
  after: CheckpointRow,
): CompiledQuery[] {
  const { resource, walk_started_at: scanStartedAt } = before;
  // Keys that another scan has seen prove nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (scanStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  // An empty listing proves nothing; nor does a scan that must not be used to find deletes.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const findsDeletes = isFull && verdict?.allowsDeletes !== false && mayFindDeletes(before) && !isEmpty;
  // Only a numbered page is read again by a resumed scan, to see whether the listing has moved.
  const { listing } = page.position;
  const position = page.isNumbered ? page.position : listing === undefined ? null : { url: '', listing };
  const seen = rememberSeen(own, {
    resource,
    walk_started_at: scanStartedAt,
    page: before.walk_pages,
    unkeyed: facts.unkeyed,
    ids: page.keys,
    position: position && storePosition(position, profile.query, scrub),
  });
  const statements = findsDeletes || !isDone ? [...begun, seen] : [forgetSeen(own, resource)];
  if (!isFull || !isDone || verdict?.isComplete !== true || after.last_success_at === null) return statements;
  // A complete full scan has seen every record: rejects that it has not seen no longer exist.
  return [...statements, resolveUnseenRejects(own, resource, scanStartedAt, after.last_success_at)];
}

/**
 * False for the first scan, which finds nothing to miss, and for one that was made under several credentials, of which
 * each may be allowed to see something else.
 */
function mayFindDeletes({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL_CREDENTIALS;
}

/** Keys that are read per query, so that other work is not delayed. */
const KEYS_PER_STEP = 5_000;
/** A row may be written this long after its record was requested. */
const MAX_WRITE_DELAY_MS = 120_000;

/**
 * The listings of a partitioned resource as they are now: the profile's values, or those of the live rows of the parent;
 * in an incremental scan perhaps only of those that changed since the last one, and that of the record which proves the
 * filter. Throws `SyncError` (`parent_not_synced`) if no full scan of the parent has come to its end; warns if that end
 * was not verified.
 */
export async function partitionsOf(
  context: RunContext,
  profile: PartitionProfile,
  { walk_mode, walk_started_at, last_success_at, cursor_key, resource }: CheckpointRow,
): Promise<Partitions> {
  const { warehouse, clock } = context;
  const now = (): number => clock.now();
  const storedKeys = (value: string): Promise<Uint8Array> =>
    walk_mode === 'full' ? keysOfListing(context, value) : Promise.resolve(new Uint8Array());
  if ('values' in profile) return { values: profile.values, changed: [], mayBeGone: false, storedKeys, now };
  await verifyParents(context, profile.parent);
  const isChangedOnly = profile.changed_only && walk_mode === 'incremental' && last_success_at !== null;
  const began = isChangedOnly ? await lastScanStart(warehouse.own, resource, last_success_at) : null;
  const since = began === null ? null : timestampText(timestampMs(began) - MAX_WRITE_DELAY_MS);
  const parents = await liveParents(context, profile);
  const isFiltered = context.profile.incremental !== null && cursor_key !== null;
  const cursorParent = isFiltered ? keyParts(context.profile, cursor_key).partition : null;
  const chosen = parents.filter(({ value, syncedAt }) => since === null || syncedAt >= since || value === cursorParent);
  const late = parents.filter(({ syncedAt }) => walk_started_at !== null && syncedAt >= walk_started_at);
  return { values: valuesOf(chosen), changed: valuesOf(late), mayBeGone: true, storedKeys, now };
}

/** Fingerprints of the keys of the stored rows that came from one listing. */
async function keysOfListing({ warehouse, owned, profile, signal }: RunContext, value: string): Promise<Uint8Array> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return new Uint8Array();
  // Keys are sorted by their bytes: those of a listing follow each other if its field is the first part.
  const prefix = [profile.id].flat()[0] === profile.partitions?.field ? JSON.stringify([value]).slice(0, -1) : '';
  const found: string[] = [];
  let keys = await warehouse.rows.keysAfter(table, prefix, KEYS_PER_STEP);
  while (keys.length > 0) {
    found.push(...keys.filter((key) => keyParts(profile, key).partition === value));
    const last = keys.at(-1) ?? '';
    if (!last.startsWith(prefix)) break;
    signal.throwIfAborted();
    keys = await warehouse.rows.keysAfter(table, last, KEYS_PER_STEP);
  }
  return keyFingerprints(found);
}

/** Throws if no full scan of the parent has come to its end; warns if that end was not verified. */
async function verifyParents({ warehouse, progress }: RunContext, parent: string): Promise<void> {
  const checkpoint = await readCheckpoint(warehouse.own, parent);
  if (checkpoint === null || (checkpoint.last_full_at ?? checkpoint.unproved_full_at) === null) throw notSynced(parent);
  const isReported = progress.warnings.some(({ code }) => code === 'parents_unproved');
  if (checkpoint.last_full_at === null && !isReported) {
    progress.warnings.push({
      code: 'parents_unproved',
      message: `nothing proves that all rows of ${parent} are here, of which each has a listing`,
      hint: `see the warnings of ${parent}: its listing has to come to a proved end first`,
    });
  }
}

/** A row of the parent: the value that names its listing, and when the row was written. */
interface Parent {
  value: string;
  syncedAt: string;
}

function valuesOf(parents: readonly Parent[]): string[] {
  const values = new Set(parents.map(({ value }) => value));
  return [...values].toSorted((a, b) => (a < b ? -1 : 1));
}

/** Reads the live rows of the parent. */
async function liveParents(
  { warehouse, signal }: ResourceContext,
  profile: Extract<PartitionProfile, { parent: string }>,
): Promise<Parent[]> {
  const name = profile.parent ?? '';
  const table = (await readTables(warehouse, name))?.tables[0];
  if (table === undefined) throw notSynced(name);
  // Null if the field that names the listing is the id, which has no column.
  const field = profile.parent_id;
  const column = table.columns.find(({ path }) => field !== null && pathText(path) === fieldPathText(field)) ?? null;
  const parents: Parent[] = [];
  let keys = await warehouse.rows.keysAfter(table, '', KEYS_PER_STEP);
  while (keys.length > 0) {
    const rows = await warehouse.rows.stored(table, keys, column === null ? [] : [column]);
    for (const [key, { deletedAt, syncedAt, updated }] of rows) {
      const value = column === null ? key : updated;
      if (deletedAt === null && value !== null) parents.push({ value: String(value), syncedAt });
    }
    signal.throwIfAborted();
    keys = await warehouse.rows.keysAfter(table, keys.at(-1) ?? '', KEYS_PER_STEP);
  }
  return parents;
}

/** Thrown if the rows of the parent cannot be relied on in this run. */
export function notSynced(parent: string): SyncError {
  return new SyncError('parent_not_synced', `the listings are those of the rows of ${parent}, which are not all here`, {
    recovery: 'stop',
    hint: `sync ${parent} first, or both in one run: content-sync sync`,
  });
}
