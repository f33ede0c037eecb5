import type { Kysely } from 'kysely';
import { type ExtraQuery, filterQuery, listingWalk, type RequestContext } from '../checks/listing-walk.ts';
import { inPartition } from '../extract/partitioned-walk.ts';
import { walk } from '../extract/walk.ts';
import { keyRecords } from '../load/key-records.ts';
import { ConfigError, DeferredError } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import type { TableRows } from '../model/table.ts';
import { timestampMs } from '../model/timestamp-text.ts';
import type { WalkMode } from '../model/vocabulary.ts';
import type { KeptFile } from '../settings/file-stores.ts';
import { takenIn } from '../shape/records/as-record.ts';
import { initialShape, shapeRecords } from '../shape/shape-page.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { asksForEnd, type ReportWindows } from '../source/report-windows.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import { countFiles } from '../state/files/shown-files.ts';
import { readWindows } from '../state/windows.ts';
import type { StorageCosts } from '../warehouse/database.ts';
import type { CheckpointRow, OwnTables } from '../warehouse/own-tables.ts';
import { sampleQuery } from './check/windows.ts';
import { fileAddresses } from './files/file-address.ts';
import { planWalk, type SyncCommand, type WalkPlan } from './plan.ts';
import { dueWindows } from './reports/report-days.ts';
import { nextRange } from './reports/report-ranges.ts';

/** What one walk of a resource will take. Null is not known: nothing here is guessed. */
interface WalkForecast {
  mode: WalkMode;
  /** Records that will be read. */
  records: number | null;
  requests: number | null;
  /** Bytes of the answers, as they come over the network. */
  transfer_bytes: number | null;
}

/** What a run will do to one resource, from one page of each listing that it would read. */
export interface ResourceForecast {
  resource: string;
  /** How it is walked by the next run. */
  walk: WalkForecast;
  /** What a whole walk takes, such as each `full` one of the schedule. */
  whole: WalkForecast;
  /** What the database will hold when all of it is copied, with versions and indexes. */
  copy: { rows: number | null; child_rows: number | null; disk_bytes: number | null };
  /** What is left to fetch of the files of its records; null if no files are copied. */
  files: { requests: number | null; bytes: number | null } | null;
  /** Why it is walked so, and what is not known: sentences without a final period. */
  notes: string[];
  /** True if the run will be refused until the profile is put back, or the resource is copied anew. */
  is_refused: boolean;
}

interface ForecastRequest {
  command: SyncCommand;
  resource: string;
  /** In use, as a hash. */
  credential: string;
  /** What is remembered; null if there is no warehouse yet. */
  own: Kysely<OwnTables> | null;
  costs: StorageCosts;
  /** Files of its records that are copied too. */
  files: readonly KeptFile[];
}

/** The number of records and pages of a listing; null if that is not known. */
interface ListingSize {
  records: number | null;
  pages: number | null;
  /** Bytes that a record takes in an answer; null if the page was empty. */
  recordBytes: number | null;
  /** Records of the pages that were read. */
  sample: SourceRecord[];
  /** Why it is not known how much there is; null if it is. */
  why: string | null;
}

/** What the next run will do to a resource: asks for one page of each listing, and writes nothing. Throws what asking throws. */
export async function forecastResource(context: RequestContext, request: ForecastRequest): Promise<ResourceForecast> {
  const { profile } = context;
  const { own, resource, costs } = request;
  const stored = own === null ? null : await readCheckpoint(own, resource);
  const { plan, notes } = await planNext(context, request, stored);
  const mode = plan?.mode ?? 'full';
  const { next, whole } =
    profile.windows === null
      ? await sizeOfListings(context, plan)
      : await sizeOfReports(context, profile.windows, { own, resource, plan });
  if (whole.why !== null) notes.push(`how much there is, is not known: ${whole.why}`);
  return {
    resource,
    walk: walkOf(mode, next, left(plan, next)),
    whole: walkOf('full', whole, 1),
    copy: sizeOfCopy(profile, resource, whole, costs),
    files: await forecastFiles(context, request, whole),
    notes,
    is_refused: plan === null,
  };
}

/** How the next run walks, by the very rule that it follows; null if it would be refused. */
async function planNext(
  { profile, clock }: RequestContext,
  { command, resource, credential, own }: ForecastRequest,
  stored: CheckpointRow | null,
): Promise<{ plan: WalkPlan | null; notes: string[] }> {
  const feeds = own?.selectFrom('_sync_feeds').select('cursor').where('resource', '=', resource);
  const changes = feeds?.where('feed', '=', 'changes').where('cursor', 'is not', null);
  const isFed = changes !== undefined && profile.feed !== null && (await changes.execute()).length > 0;
  const input = { command, resource, profile, restart: false, interrupted: null, credential, isFed, now: clock.now() };
  try {
    const plan = planWalk({ ...input, stored });
    const { walk_pages, walk_records } = plan.checkpoint;
    const notes = [
      ...(stored === null ? ['it was never copied: all of it is read'] : []),
      ...(plan.resumed
        ? [`it goes on behind ${walk_pages} pages and ${walk_records} records of an unfinished walk`]
        : []),
      ...(stored !== null && command === 'sync' && profile.incremental === null && profile.feed === null
        ? ['the profile names no filter by time: all of it is read']
        : []),
    ];
    return { plan, notes };
  } catch (error) {
    if (error instanceof DeferredError) {
      return { plan: planWalk({ ...input, stored: stored && { ...stored, due_at: null } }), notes: [error.message] };
    }
    if (!(error instanceof ConfigError) || error.code !== 'profile_changed') throw error;
    const note = `it is refused: ${error.message}; with backfill --restart it is copied anew`;
    return { plan: null, notes: [note] };
  }
}

/** The part of a resumed walk that is still to come. */
function left(plan: WalkPlan | null, { records }: ListingSize): number {
  if (plan === null || !plan.resumed || records === null || records === 0) return 1;
  return Math.max(0, records - plan.checkpoint.walk_records) / records;
}

function walkOf(mode: WalkMode, { records, pages, recordBytes }: ListingSize, part: number): WalkForecast {
  const bytes = records === 0 ? 0 : records === null || recordBytes === null ? null : records * part * recordBytes;
  return {
    mode,
    records: records === null ? null : Math.round(records * part),
    requests: pages === null ? null : Math.max(1, Math.ceil(pages * part)),
    transfer_bytes: bytes === null ? null : Math.round(bytes),
  };
}

function unknown(why: string): ListingSize {
  return { records: null, pages: null, recordBytes: null, sample: [], why };
}

/** Listings that are asked for their first page at most. */
const MOST_LISTINGS = 5;

async function sizeOfListings(
  context: RequestContext,
  plan: WalkPlan | null,
): Promise<{ next: ListingSize; whole: ListingSize }> {
  const whole = await sizeOfListing(context, null);
  if (plan?.mode !== 'incremental') return { next: whole, whole };
  const since = plan.checkpoint.walk_since;
  return {
    next: since === null ? unknown('a feed of changes tells no total') : await sizeOfListing(context, since),
    whole,
  };
}

/** By the first page of each listing of the resource, `since` as a filter takes it or null for all. */
async function sizeOfListing(context: RequestContext, since: string | null): Promise<ListingSize> {
  const { partitions } = context.profile;
  if (partitions !== null && 'parent' in partitions) return unknown('it has a listing for each record of its parent');
  const values = partitions?.values ?? [null];
  if (values.length > MOST_LISTINGS) return unknown(`it has ${values.length} listings`);
  const sizes: ListingSize[] = [];
  for (const value of values) sizes.push(await sizeByPage(context, filterQuery(context.profile, since), value));
  return sizes.reduce((a, b) => ({
    records: sum(a.records, b.records),
    pages: sum(a.pages, b.pages),
    recordBytes: Math.max(a.recordBytes ?? 0, b.recordBytes ?? 0) || null,
    sample: [...a.sample, ...b.sample],
    why: a.why ?? b.why,
  }));
}

async function sizeByPage(
  context: RequestContext,
  query: ExtraQuery,
  partition: string | null = null,
): Promise<ListingSize> {
  const { profile, meter } = context;
  const before = meter.bytes;
  const options = { ...listingWalk(context, 'incremental', query), acceptsEnd: true };
  const { partitions } = profile;
  const one = partitions === null || partition === null ? options : inPartition(options, partitions, partition);
  for await (const { records, next, total } of walk(one)) {
    const { length } = records;
    const all = next === null ? length : total;
    const known = {
      recordBytes: length === 0 ? null : (meter.bytes - before) / length,
      sample: [...takenIn(records)],
    };
    if (all === null) return { ...unknown('the service tells no total'), ...known };
    return { ...known, records: all, pages: next === null ? 1 : Math.ceil(all / Math.max(1, length)), why: null };
  }
  return unknown('its listing has no page');
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}

const DAY_MS = 86_400_000;

/** Which windows are asked for is known; how many rows one holds is taken from two that are over. */
async function sizeOfReports(
  context: RequestContext,
  windows: ReportWindows,
  { own, resource, plan }: { own: Kysely<OwnTables> | null; resource: string; plan: WalkPlan | null },
): Promise<{ next: ListingSize; whole: ListingSize }> {
  const rows = new Map((own === null ? [] : await readWindows(own, resource)).map((row) => [row.window_start, row]));
  const sampled = await sizeByPage(context, sampleQuery(context));
  const hasEnd = asksForEnd(context.profile);
  const likely = sampled.records === null ? null : sampled.records / (hasEnd ? 2 : 1);
  const rowsOf = ({ start }: { start: string }): number | null => {
    const row = rows.get(start);
    return row === undefined || row.fetched_at === null ? likely : row.rows;
  };
  // A page that is the last one does not show how many there is room for.
  const pageSize = sampled.pages === 1 ? context.profile.page.size : Math.max(1, sampled.sample.length);
  const now = context.clock.now();
  const begun = plan?.checkpoint.walk_started_at ?? null;
  const sizeOf = (mode: WalkMode, walkStartedAt: number): ListingSize => {
    const { windows: due, until } = dueWindows({ windows, rows, mode, now, hasEnd, walkStartedAt });
    const largest = windows.largest / DAY_MS;
    const bounds = { largest, windows: hasEnd ? Infinity : 1, until };
    let [records, pages]: [number | null, number] = [0, 0];
    for (let rest: readonly (typeof due)[number][] = due; rest.length > 0;) {
      const next = nextRange(rest, bounds);
      rest = next.left;
      const held = next.range.windows.map(rowsOf).reduce(sum, 0);
      records = sum(records, held);
      pages += held === null ? 1 : Math.max(1, Math.ceil(held / pageSize));
    }
    return { ...sampled, records: records && Math.round(records), pages: records === null ? null : pages };
  };
  return {
    next: sizeOf(plan?.mode ?? 'full', begun === null ? now : timestampMs(begun)),
    whole: sizeOf('full', now),
  };
}

/** Bytes of the stamps of a row: fingerprint, version, times. */
const STAMP_BYTES = 32 + 2 + 23;
/** Bytes of a version besides its id and body: resource, number, time, kind, fingerprint. */
const VERSION_BYTES = 8 + 2 + 23 + 6 + 32;

/** What the copy will take for all records, of which the sample is some. */
function sizeOfCopy(
  profile: ResourceProfile,
  resource: string,
  { records, sample }: ListingSize,
  costs: StorageCosts,
): ResourceForecast['copy'] {
  if (records === 0) return { rows: 0, child_rows: 0, disk_bytes: 0 };
  const { keyed } = keyRecords(sample, profile);
  if (records === null || keyed.length === 0) return { rows: null, child_rows: null, disk_bytes: null };
  const shape = initialShape(resource, profile);
  const shaped = shapeRecords({ shape, profile: { ...profile, contract: 'evolve' }, records: keyed });
  const perRow = costs.row + costs.index;
  const indexes = profile.indexes === 'auto' ? 2 : profile.indexes === 'none' ? 0 : profile.indexes.length;
  const versions = profile.history === 'none' ? [] : keyed;
  let bytes = keyed.length * (STAMP_BYTES + costs.index * indexes);
  for (const { key, bytes: body } of versions) bytes += body.length + VERSION_BYTES + 2 * key.length + perRow;
  let rows = 0;
  for (const { cells, width, table } of shaped.rows) {
    rows += cells.length / width;
    bytes += (cells.length / width) * perRow;
    // A key is in the row and in its index.
    for (const [at, cell] of cells.entries())
      bytes += sizeOfCell(cell, costs) * (at % width < table.key.length ? 2 : 1);
  }
  const part = records / sample.length;
  return {
    rows: Math.round(keyed.length * part),
    child_rows: Math.round((rows - keyed.length) * part),
    disk_bytes: Math.round(bytes * part),
  };
}

function sizeOfCell(cell: TableRows['cells'][number], costs: StorageCosts): number {
  if (cell === null) return costs.emptyCell;
  return typeof cell === 'string' ? Buffer.byteLength(cell) + costs.cell : costs.number;
}

/** By the files that the sample shows, and those that are known: bytes by the sizes that records tell, else by the mean of those that are stored. */
async function forecastFiles(
  { profile, listing }: RequestContext,
  { resource, files, own }: ForecastRequest,
  { records, sample }: ListingSize,
): Promise<ResourceForecast['files']> {
  if (files.length === 0) return null;
  const { keyed } = keyRecords(sample, profile);
  const shown = keyed.flatMap(({ key, value }) => fileAddresses({ profile, listing }, files, key, value));
  const sizes = shown.flatMap(({ declared }) => declared.bytes ?? []);
  const known = own === null ? [] : (await countFiles(own)).filter((count) => count.resource === resource);
  const [stored, waiting] = [
    known.filter(({ status }) => status === 'stored'),
    known.filter(({ status }) => status === 'waiting' || status === 'failed'),
  ];
  const countOf = (counts: typeof known): number => counts.reduce((all, count) => all + count.files, 0);
  const perRecord = shown.filter(({ fault }) => fault === null).length / Math.max(1, keyed.length);
  if (records === null || (records > 0 && keyed.length === 0)) return { requests: null, bytes: null };
  const requests = Math.round(Math.max(0, perRecord * records - countOf(known)) + countOf(waiting));
  const told = sizes.reduce((all, bytes) => all + bytes, 0) / sizes.length;
  const mean = sizes.length > 0 ? told : stored.reduce((all, { bytes }) => all + bytes, 0) / countOf(stored);
  return { requests, bytes: requests === 0 ? 0 : Number.isNaN(mean) ? null : Math.round(requests * mean) };
}
