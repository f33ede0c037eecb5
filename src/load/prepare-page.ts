import type { ResourceProfile } from '../config/profile/profile.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import { currentBodies } from '../database/state/versions.ts';
import type { PageRows, StoredRow } from '../database/warehouse.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import type { Cell, Column, ResourceShape, TableRows } from '../model/table.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { parseInstant, toTimestampText } from '../rows/columns/cells.ts';
import { storedZone, type Tombstone, tombstoneOf, updatedColumns, updatedTime } from '../rows/columns/updated-time.ts';
import { comparedPart } from '../rows/mask-fields.ts';
import { recordsPassingFilter, storedValue } from '../rows/records/as-record.ts';
import { recordDifferences } from '../rows/records/record-difference.ts';
import { canonicalHash, sameJson } from '../rows/records/record-key.ts';
import { dropForgotten, type ExcludedRecord, type KeyedRecord, type KeyedRecords, keyRecords, latestReading } from './key-records.ts';
import type { LoadContext } from './load-context.ts';

// Compares the records of a page with the stored rows: new, changed, unchanged, older or deleted.

export interface LoadablePage {
  records: readonly SourceRecord[];
  /** Local epoch milliseconds just before the page was requested. */
  requestedAt: number;
}

/** A page compared with what the warehouse holds. */
export interface PreparedPage extends KeyedRecords {
  /** Records that were dropped, because a user has erased them. */
  forgotten: number;
  /** Records that are to be rows. */
  taken: number;
  /** Records by key that say that they are deleted. */
  tombstones: ReadonlyMap<string, Tombstone>;
  /** Records of `leftOut` that have a live row, from before the page was requested. */
  lost: readonly ExcludedRow[];
  found: Difference;
  /** The records that must be written: the new ones, then the changed ones. */
  fresh: readonly KeyedRecord[];
}

/** A live row whose record the profile's filter excludes. */
export interface ExcludedRow {
  key: string;
  /** True if the record is in an older state than the row by the service's own clock. */
  isOlder: boolean;
}

/** Compares a page with the stored rows. Changes nothing. Throws `SyncError`. */
export async function preparePage(
  context: LoadContext,
  policy: OlderPolicy,
  shape: ResourceShape,
  page: LoadablePage,
): Promise<PreparedPage> {
  const { profile, owned } = context;
  const { records, forgotten } = dropForgotten(page.records, profile, owned.forgotten);
  const keyed = keyRecords(records, profile);
  const tombstones = new Map<string, Tombstone>();
  for (const { key, value } of profile.deleted === null ? [] : keyed.keyed) {
    const tombstone = tombstoneOf(value, profile);
    if (tombstone !== null) tombstones.set(key, tombstone);
  }
  const requestedAt = timestampText(page.requestedAt);
  const found = await findDifference(context, policy, shape, { records: keyed.keyed, tombstones, requestedAt });
  const lost = await findLostRows(context, shape, keyed.leftOut, requestedAt);
  const fresh = found.updates.length === 0 ? found.inserts : [...found.inserts, ...found.updates];
  return { ...keyed, forgotten, taken: recordsPassingFilter(records).length, tombstones, lost, found, fresh };
}

/** The rows of a commit; `written` are the records of the rows of the resource's own table. */
export function pageRows(
  { owned, profile }: LoadContext,
  rows: readonly TableRows[],
  written: readonly KeyedRecord[],
  requestedAt: string,
): PageRows {
  const children = shapeOf(owned).tables.slice(1);
  return { resource: owned.resource, history: profile.history, requestedAt, rows, children, records: written };
}

async function findDifference(
  context: LoadContext,
  policy: OlderPolicy,
  shape: ResourceShape,
  {
    records,
    tombstones,
    requestedAt,
  }: { records: KeyedRecord[] } & Pick<PreparedPage, 'tombstones'> & {
      requestedAt: string;
    },
): Promise<Difference> {
  const { warehouse, owned, profile, clock } = context;
  const stored = await storedRows(context, shape, records);
  const found = difference(records, stored, requestedAt, policy, timestampText(clock.now()), tombstones);
  if (!warehouse.keepsMicroseconds) found.cutTime = timeWithMicroseconds(found.inserts);
  if (profile.history === 'none' || found.updates.length === 0) return found;

  const bodies = await currentBodies(warehouse.own, owned.resource, found.updates.map(keyOf));
  const compared = comparedPart(profile.fields);
  const before = new Map<string, JsonValue>();
  // Other order of members or other spacing is no change.
  const updates = found.updates.filter(({ key, value }) => {
    const body = bodies.get(key);
    if (body === undefined || stored.get(key)?.deletedAt !== null) return true;
    const known = storedValue(body, profile);
    before.set(key, known);
    return !sameJson(compared(known), compared(value));
  });
  const keys = new Set(updates.map(keyOf));
  return {
    ...found,
    updates,
    unchanged: found.unchanged + found.updates.length - updates.length,
    overwritten: found.overwritten.filter((key) => keys.has(key)),
    volatile: volatileFields(records.length, updates, before, profile),
  };
}

/** The stored rows of these records, with their times of change as moments. */
async function storedRows(
  { warehouse, profile, owned }: LoadContext,
  { tables: [table] }: ResourceShape,
  records: readonly { key: string }[],
): Promise<ReadonlyMap<string, StoredRow>> {
  if (table === undefined) throw new Error(`the shape of ${owned.resource} has no table`);
  const updated: Column[] = updatedColumns(table.columns, profile);
  const stored = await warehouse.rows.stored(table, records.map(keyOf), updated);
  const zone = storedZone(updated, profile);
  if (zone === null) return stored;
  // A column of any type but timestamp holds the service's own text, whose local times are still to be read.
  const moments = [...stored].map(([key, row]) => {
    const moment = typeof row.updated === 'string' ? toTimestampText(row.updated, zone) : null;
    return [key, { ...row, updated: moment ?? row.updated }] as const;
  });
  return new Map(moments);
}

/** Records in which a time with microseconds is looked for. */
const SAMPLE_SIZE = 10;

function timeWithMicroseconds(records: readonly KeyedRecord[]): string | null {
  const texts = records.slice(0, SAMPLE_SIZE).flatMap(({ updated }) => updated?.text ?? []);
  return texts.find((text) => /\.\d{3}\d*[1-9]/.test(text)) ?? null;
}

/** A page with fewer changed records shows nothing about its fields. */
const MIN_VOLATILE = 10;
const NEARLY_ALL = 0.9;

/** Fields that differ from the stored bodies in nearly all records of a page, whose times of change have not moved. */
function volatileFields(
  listed: number,
  changed: readonly KeyedRecord[],
  before: ReadonlyMap<string, JsonValue>,
  profile: ResourceProfile,
): string[] {
  const min = Math.max(MIN_VOLATILE, listed * NEARLY_ALL);
  if (changed.length < min) return [];
  const counts = new Map<string, number>();
  for (const { key, value, updated } of changed) {
    const known = before.get(key) ?? null;
    if (updated === null || updatedTime(known, profile)?.at !== updated.at) continue;
    const paths = recordDifferences(known, value).map(({ path }) => path.replaceAll('[]', ''));
    for (const path of new Set(paths)) counts.set(path, (counts.get(path) ?? 0) + 1);
  }
  return [...counts].flatMap(([path, count]) => (count >= min && path !== '' ? [path] : []));
}

/** The excluded records that have a live row which was written before this time. */
async function findLostRows(
  context: LoadContext,
  shape: ResourceShape,
  leftOut: readonly ExcludedRecord[],
  before: string,
): Promise<ExcludedRow[]> {
  if (leftOut.length === 0) return [];
  const stored = await storedRows(context, shape, leftOut);
  return leftOut.flatMap(({ key, updated }) => {
    const row = stored.get(key);
    const isLive = row !== undefined && row.deletedAt === null && row.syncedAt <= before;
    return isLive ? [{ key, isOlder: isOlder(updated, row.updated) }] : [];
  });
}

/** Throws if the tables were not opened. */
export function shapeOf({ shape, resource }: OwnedResource): ResourceShape {
  if (shape === null) throw new Error(`the tables of ${resource} were not opened`);
  return shape;
}

export function keyOf(record: { key: string }): string {
  return record.key;
}

/** Whether states that are older than the stored row are accepted. */
export interface OlderPolicy {
  /** True if an older state of a record, by the service's clock, is accepted: it was fetched individually. */
  acceptsOlder: boolean;
  /** Older states that a full scan has shown before (`canonicalHash` by key): if shown again, they are accepted. */
  seenBefore?: ReadonlyMap<string, string>;
  /** When the scan began that the records are of; absent if they are of none. */
  scanStartedAt?: string;
}

/** How records of a page differ from their rows. */
interface Difference {
  inserts: KeyedRecord[];
  /** Known, with another source than the stored one; their `version` is set. */
  updates: KeyedRecord[];
  /** Same source, or older than the row. */
  unchanged: number;
  /** Older than the row, and not accepted: a listing that lags behind shows such states too. */
  older: KeyedRecord[];
  /** Tombstones of live rows. */
  stated: KeyedRecord[];
  /** Keys among the updates of rows that are deleted: they are back. */
  restored: string[];
  /** When the page was requested: the `_synced_at` of its rows. */
  stampedAt: string;
  /** Number of updates whose own clock went back. */
  wentBack: number;
  /**
   * Keys among the updates of rows that the same scan has written with an older state, of records that have not changed
   * since long before it: the listing shows states of one record, or another record has that key as well.
   */
  overwritten: string[];
  /** Fields that differ in nearly all records of the page, of which none has another time of change. */
  volatile?: string[];
  /** A time of change of a new record that the warehouse cuts to milliseconds; null for none. */
  cutTime?: string | null;
}

/**
 * Sorts records by what must be written. The later request wins. A record that is deleted here is restored if it is
 * listed. A state that is older by the service's own clock is not written if a lagging replica may have answered.
 */
export function difference(
  records: readonly KeyedRecord[],
  stored: ReadonlyMap<string, StoredRow>,
  requestedAt: string,
  policy: OlderPolicy,
  now: string,
  tombstones: ReadonlyMap<string, Tombstone> = new Map(),
): Difference {
  // Rows with a time in the future were written before our clock was set back. This page is later all the same.
  let stampedAt = requestedAt;
  for (const { syncedAt } of stored.values()) if (syncedAt > now && syncedAt > stampedAt) stampedAt = syncedAt;
  const lists = { inserts: [], updates: [], older: [], stated: [], restored: [], overwritten: [] };
  const result: Difference = { ...lists, unchanged: 0, stampedAt, wentBack: 0 };
  for (const record of records) {
    const row = stored.get(record.key);
    if (tombstones.has(record.key)) addTombstone(result, record, row, policy);
    else addRecord(result, record, row, policy);
  }
  return result;
}

/** If the record never had a row, or is deleted already, nothing is written. */
function addTombstone(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  result.unchanged += 1;
  if (row === undefined || row.deletedAt !== null || row.syncedAt > result.stampedAt) return;
  const isDoubtful = isOlder(record.updated, row.updated) && !isAccepted(record, policy);
  (isDoubtful ? result.older : result.stated).push(record);
}

function addRecord(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  if (row === undefined) {
    result.inserts.push(record);
    return;
  }
  const isDeleted = row.deletedAt !== null;
  const isSame = row.hash === record.hash;
  const isOld = !isSame && !isDeleted && isOlder(record.updated, row.updated);
  const isOvertaken = row.syncedAt > result.stampedAt;
  const isDoubtful = isOld && !isOvertaken && !isAccepted(record, policy);
  if (isDoubtful) result.older.push(record);
  if (isOvertaken || isDoubtful || (isSame && !isDeleted)) {
    result.unchanged += 1;
    return;
  }
  if (isOld) result.wentBack += 1;
  if (isDeleted) result.restored.push(record.key);
  record.version = row.version + 1;
  result.updates.push(record);
  if (!isDeleted && isOverwriting(record, row, policy)) result.overwritten.push(record.key);
}

/** Bounds the lag of a service and an error in its time zone. */
const MARGIN_MS = 86_400_000;

/** A difference without another time of change, such as a counter, shows nothing. */
function isOverwriting({ updated }: KeyedRecord, row: StoredRow, { scanStartedAt }: OlderPolicy): boolean {
  if (scanStartedAt === undefined || row.syncedAt < scanStartedAt || updated === null) return false;
  const before = parseStoredTime(row.updated);
  return before !== null && before < updated.at && latestReading(updated) < timestampMs(scanStartedAt) - MARGIN_MS;
}

function isAccepted(record: KeyedRecord, { acceptsOlder, seenBefore }: OlderPolicy): boolean {
  return acceptsOlder || seenBefore?.get(record.key) === canonicalHash(record.value);
}

/** True if the service's own clock says that the record is from before the row with this time of change. */
function isOlder(updated: KeyedRecord['updated'], stored: Cell): boolean {
  const before = parseStoredTime(stored);
  return updated !== null && before !== null && latestReading(updated) < before;
}

function parseStoredTime(stored: Cell): number | null {
  return typeof stored === 'string' || typeof stored === 'number' ? (parseInstant(stored)?.epochMs ?? null) : null;
}
