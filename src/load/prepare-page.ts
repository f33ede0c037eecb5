// Compares the records of a page with the stored rows before anything is written (`preparePage`): which are new, changed,
// unchanged or deleted. A service may respond from a replica that lags behind. Example: the row has a post as changed at
// 12:05, and the page has it as changed at 12:01. The older state must not overwrite the row.
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
import {
  dropForgotten,
  type ExcludedRecord,
  type KeyedRecord,
  type KeyedRecords,
  keyRecords,
  latestReading,
} from './key-records.ts';
import type { LoadContext } from './load-context.ts';

/** A page as it was fetched, to be loaded. */
export interface LoadablePage {
  records: readonly SourceRecord[];
  /** Local epoch milliseconds just before the page was requested. */
  requestedAt: number;
}

export interface PreparedPage extends KeyedRecords {
  /** Number of records that were dropped because an operator had them erased. */
  forgotten: number;
  /** Number of records that pass the profile's filter. */
  passing: number;
  /** Records that the service marks as deleted, by key. */
  tombstones: ReadonlyMap<string, Tombstone>;
  /** Live rows of the records in `filteredOut`, written before the page was requested. */
  excludedRows: readonly ExcludedRow[];
  difference: Difference;
  /** New records, then changed ones. */
  toWrite: readonly KeyedRecord[];
  /** Fields that differ in nearly all records of the page although their times of change are the same, such as a counter. */
  volatile: readonly string[];
  /** A time of a new record that the warehouse cuts to milliseconds; null for none. */
  cutTime: string | null;
}

/** A live row whose record the profile's filter excludes. */
export interface ExcludedRow {
  key: string;
  /** True if the record is in an older state than the row by the service's own clock. */
  isOlder: boolean;
}

/** Which states that are older than the stored row are accepted. */
export interface OlderPolicy {
  /** True for a record that was fetched individually: it comes from no listing that may lag behind. */
  acceptsOlder: boolean;
  /** Older states that a full scan has listed before (`canonicalHash` by key). If listed again, they are accepted. */
  seenBefore?: ReadonlyMap<string, string>;
  /** When the scan that lists the records began; absent for records outside of a scan. */
  scanStartedAt?: string;
}

/** Compares a page with the stored rows. Changes nothing. Throws `SyncError`. */
export async function preparePage(
  context: LoadContext,
  policy: OlderPolicy,
  shape: ResourceShape,
  page: LoadablePage,
): Promise<PreparedPage> {
  const { profile, owned, warehouse, clock } = context;
  const { records, forgotten } = dropForgotten(page.records, profile, owned.forgotten);
  const found = keyRecords(records, profile);
  const tombstones = findTombstones(found.keyed, profile);
  const requestedAt = timestampText(page.requestedAt);
  const stored = await storedRows(context, shape, found.keyed);
  const now = timestampText(clock.now());
  const compared = compareRecords(found.keyed, stored, requestedAt, policy, now, tombstones);
  const { difference, volatile } = await compareBodies(context, compared, stored, found.keyed.length);
  return {
    ...found,
    forgotten,
    passing: recordsPassingFilter(records).length,
    tombstones,
    excludedRows: await findExcludedRows(context, shape, found.filteredOut, requestedAt),
    difference,
    toWrite: [...difference.inserts, ...difference.updates],
    volatile,
    cutTime: warehouse.keepsMicroseconds ? null : timeWithMicroseconds(difference.inserts),
  };
}

function findTombstones(records: readonly KeyedRecord[], profile: ResourceProfile): ReadonlyMap<string, Tombstone> {
  const tombstones = new Map<string, Tombstone>();
  for (const { key, value } of records) {
    const tombstone = tombstoneOf(value, profile);
    if (tombstone !== null) tombstones.set(key, tombstone);
  }
  return tombstones;
}

/** Returns the rows of a page for `Warehouse.commit`; `written` has their records, in the same order. */
export function pageRows(
  { owned, profile }: LoadContext,
  rows: readonly TableRows[],
  written: readonly KeyedRecord[],
  requestedAt: string,
): PageRows {
  const children = shapeOf(owned).tables.slice(1);
  return { resource: owned.resource, history: profile.history, requestedAt, rows, children, records: written };
}

/**
 * Compares the updates with their stored bodies, and drops those in which only the order of members or white space
 * differs: their hashes differ, but nothing has changed. `recordCount` is the number of records on the page.
 */
async function compareBodies(
  { warehouse, owned, profile }: LoadContext,
  difference: Difference,
  stored: ReadonlyMap<string, StoredRow>,
  recordCount: number,
): Promise<{ difference: Difference; volatile: string[] }> {
  if (profile.history === 'none' || difference.updates.length === 0) return { difference, volatile: [] };
  const bodies = await currentBodies(warehouse.own, owned.resource, difference.updates.map(keyOf));
  const compared = comparedPart(profile.fields);
  const storedValues = new Map<string, JsonValue>();
  const updates = difference.updates.filter(({ key, value }) => {
    const body = bodies.get(key);
    if (body === undefined || stored.get(key)?.deletedAt !== null) return true;
    const before = storedValue(body, profile);
    storedValues.set(key, before);
    return !sameJson(compared(before), compared(value));
  });
  const keys = new Set(updates.map(keyOf));
  const unchanged = difference.unchanged + difference.updates.length - updates.length;
  const overwritten = difference.overwritten.filter((key) => keys.has(key));
  return {
    difference: { ...difference, updates, unchanged, overwritten },
    volatile: findVolatileFields(recordCount, updates, storedValues, profile),
  };
}

/** Reads the stored rows of these records, with their times of change in UTC. */
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
  // A column of another type than timestamp holds the service's own text, which may be a local time.
  const rows = [...stored].map(([key, row]) => {
    const updatedInUtc = typeof row.updated === 'string' ? toTimestampText(row.updated, zone) : null;
    return [key, { ...row, updated: updatedInUtc ?? row.updated }] as const;
  });
  return new Map(rows);
}

/** How many records are searched for a time with microseconds. */
const SAMPLE_SIZE = 10;

function timeWithMicroseconds(records: readonly KeyedRecord[]): string | null {
  const texts = records.slice(0, SAMPLE_SIZE).flatMap(({ updated }) => updated?.text ?? []);
  return texts.find((text) => /\.\d{3}\d*[1-9]/.test(text)) ?? null;
}

/** Fewer changed records do not show that a field changes with every response. */
const MIN_VOLATILE_RECORDS = 10;
const MIN_VOLATILE_SHARE = 0.9;

/** Returns the fields that differ in nearly all records of a page although their times of change are the same. */
function findVolatileFields(
  recordCount: number,
  changed: readonly KeyedRecord[],
  storedValues: ReadonlyMap<string, JsonValue>,
  profile: ResourceProfile,
): string[] {
  const min = Math.max(MIN_VOLATILE_RECORDS, recordCount * MIN_VOLATILE_SHARE);
  if (changed.length < min) return [];
  const counts = new Map<string, number>();
  for (const { key, value, updated } of changed) {
    const before = storedValues.get(key) ?? null;
    if (updated === null || updatedTime(before, profile)?.at !== updated.at) continue;
    const paths = recordDifferences(before, value).map(({ path }) => path.replaceAll('[]', ''));
    for (const path of new Set(paths)) counts.set(path, (counts.get(path) ?? 0) + 1);
  }
  return [...counts].flatMap(([path, count]) => (count >= min && path !== '' ? [path] : []));
}

/** Returns the live rows of the excluded records that were written before this time. */
async function findExcludedRows(
  context: LoadContext,
  shape: ResourceShape,
  filteredOut: readonly ExcludedRecord[],
  before: string,
): Promise<ExcludedRow[]> {
  if (filteredOut.length === 0) return [];
  const stored = await storedRows(context, shape, filteredOut);
  return filteredOut.flatMap(({ key, updated }) => {
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

interface Difference {
  inserts: KeyedRecord[];
  /** Records with a row that has other content; their `version` is set. */
  updates: KeyedRecord[];
  /** Number of records with the content of their row, or an older one. */
  unchanged: number;
  /** Records in an older state than their row, which was not accepted: the listing may lag behind. */
  older: KeyedRecord[];
  /** Tombstones of live rows. */
  tombstoned: KeyedRecord[];
  /** Keys of updates whose rows are deleted. */
  restored: string[];
  /** The `_synced_at` of the rows: when the page was requested. */
  stampedAt: string;
  /** Number of updates with an earlier time of change than their row. */
  wentBack: number;
  /**
   * Keys of updates whose rows this scan has written before, with an older state, although the record last changed long
   * before the scan: the listing has several states of one record, or two records have the same key.
   */
  overwritten: string[];
}

/**
 * Compares records with their rows. Of two states, that of the later request wins, but a state that is older by the
 * service's own clock is only written if `policy` accepts it. A listed record restores its deleted row.
 */
export function compareRecords(
  records: readonly KeyedRecord[],
  stored: ReadonlyMap<string, StoredRow>,
  requestedAt: string,
  policy: OlderPolicy,
  now: string,
  tombstones: ReadonlyMap<string, Tombstone>,
): Difference {
  // Rows with a time in the future were written before this machine's clock was set back. The page is later than them.
  let stampedAt = requestedAt;
  for (const { syncedAt } of stored.values()) if (syncedAt > now && syncedAt > stampedAt) stampedAt = syncedAt;
  const lists = { inserts: [], updates: [], older: [], tombstoned: [], restored: [], overwritten: [] };
  const result: Difference = { ...lists, unchanged: 0, stampedAt, wentBack: 0 };
  for (const record of records) {
    const row = stored.get(record.key);
    if (tombstones.has(record.key)) addTombstone(result, record, row, policy);
    else addRecord(result, record, row, policy);
  }
  return result;
}

/** Adds nothing if the record has no live row. */
function addTombstone(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  result.unchanged += 1;
  if (row === undefined || row.deletedAt !== null || row.syncedAt > result.stampedAt) return;
  const isRefused = isOlder(record.updated, row.updated) && !acceptsOlderState(record, policy);
  (isRefused ? result.older : result.tombstoned).push(record);
}

function addRecord(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  if (row === undefined) {
    result.inserts.push(record);
    return;
  }
  const isDeleted = row.deletedAt !== null;
  const isSame = row.hash === record.hash;
  const isOld = !isSame && !isDeleted && isOlder(record.updated, row.updated);
  const isFromLaterRequest = row.syncedAt > result.stampedAt;
  const isRefused = isOld && !isFromLaterRequest && !acceptsOlderState(record, policy);
  if (isRefused) result.older.push(record);
  if (isFromLaterRequest || isRefused || (isSame && !isDeleted)) {
    result.unchanged += 1;
    return;
  }
  if (isOld) result.wentBack += 1;
  if (isDeleted) result.restored.push(record.key);
  record.version = row.version + 1;
  result.updates.push(record);
  if (!isDeleted && isOverwriting(record, row, policy)) result.overwritten.push(record.key);
}

/** Larger than the lag of a listing plus an error in its time zone. */
const MAX_LAG_MS = 86_400_000;

/** True for `Difference.overwritten`. A record whose time of change is the same, such as one with a counter, is not. */
function isOverwriting({ updated }: KeyedRecord, row: StoredRow, { scanStartedAt }: OlderPolicy): boolean {
  if (scanStartedAt === undefined || row.syncedAt < scanStartedAt || updated === null) return false;
  const before = parseStoredTime(row.updated);
  return before !== null && before < updated.at && latestReading(updated) < timestampMs(scanStartedAt) - MAX_LAG_MS;
}

function acceptsOlderState(record: KeyedRecord, { acceptsOlder, seenBefore }: OlderPolicy): boolean {
  return acceptsOlder || seenBefore?.get(record.key) === canonicalHash(record.value);
}

/** True if the record last changed before the state in the row, by the service's own clock. */
function isOlder(updated: KeyedRecord['updated'], stored: Cell): boolean {
  const before = parseStoredTime(stored);
  return updated !== null && before !== null && latestReading(updated) < before;
}

function parseStoredTime(stored: Cell): number | null {
  return typeof stored === 'string' || typeof stored === 'number' ? (parseInstant(stored)?.epochMs ?? null) : null;
}
