import type { ResourceProfile } from '../config/profile/profile.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import { currentBodies } from '../database/state/versions.ts';
import type { PageRows, StoredRow } from '../database/warehouse.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import type { Cell, Column, ResourceShape, TableRows } from '../model/table.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { parseInstant, toTimestampText } from '../rows/columns/timestamps.ts';
import { storedZone, type Tombstone, tombstoneOf, updatedColumns, updatedTime } from '../rows/columns/updated-time.ts';
import { comparedPart } from '../rows/mask-fields.ts';
import { storedValue, takenIn } from '../rows/records/as-record.ts';
import { recordDifferences } from '../rows/records/record-difference.ts';
import { canonicalHash, sameJson } from '../rows/records/record-key.ts';
import {
  dropForgotten,
  type KeyClashes,
  type KeyedRecord,
  keyRecords,
  latestOf,
  type LeftOut,
  type SetAside,
} from './key-records.ts';
import type { LoadContext } from './load-context.ts';

export interface LoadablePage {
  records: readonly SourceRecord[];
  /** Local epoch milliseconds just before the page was requested. */
  requestedAt: number;
}

/** A page compared with what the warehouse holds. */
export interface PreparedPage {
  /** Records that were erased on a person's word: nothing of them is looked at. */
  forgotten: number;
  /** Records that are to be rows. */
  taken: number;
  keyed: readonly KeyedRecord[];
  /** Those of them by key that say that they are deleted. */
  tombstones: ReadonlyMap<string, Tombstone>;
  /** Records without a usable id. */
  setAside: readonly SetAside[];
  /** Records that get no row. */
  leftOut: readonly LeftOut[];
  /** Those of them that have a live row, from before the page was requested. */
  lost: readonly LostRow[];
  clashes: KeyClashes;
  found: Difference;
  /** The records that must be written: the new ones, then the changed ones. */
  fresh: readonly KeyedRecord[];
}

/** A live row whose record the profile's filter excludes. */
export interface LostRow {
  key: string;
  /** True if the record is in an older state than the row by the service's own clock. */
  isOlder: boolean;
}

/** Reads and computes, and changes nothing. Throws `SyncError`. */
export async function preparePage(
  context: LoadContext,
  policy: OlderPolicy,
  shape: ResourceShape,
  page: LoadablePage,
): Promise<PreparedPage> {
  const { profile, owned } = context;
  const { records, forgotten } = dropForgotten(page.records, profile, owned.forgotten);
  const { keyed, setAside, leftOut, clashes } = keyRecords(records, profile);
  const tombstones = tombstonesAmong(keyed, profile);
  const requestedAt = timestampText(page.requestedAt);
  const found = await findDifference(context, policy, shape, { keyed, tombstones, requestedAt });
  const lost = await lostAmong(context, shape, leftOut, requestedAt);
  const fresh = found.updates.length === 0 ? found.inserts : [...found.inserts, ...found.updates];
  const counted = { forgotten, taken: takenIn(records).length };
  return { ...counted, keyed, tombstones, setAside, leftOut, lost, clashes, found, fresh };
}

function tombstonesAmong(keyed: readonly KeyedRecord[], profile: ResourceProfile): ReadonlyMap<string, Tombstone> {
  const found = new Map<string, Tombstone>();
  if (profile.deleted === null) return found;
  for (const { key, value } of keyed) {
    const tombstone = tombstoneOf(value, profile);
    if (tombstone !== null) found.set(key, tombstone);
  }
  return found;
}

/** What a commit writes; `written` are the records of the rows of the resource's own table. */
export function pageRows(
  { owned, profile }: LoadContext,
  rows: readonly TableRows[],
  written: readonly KeyedRecord[],
  requestedAt: string,
): PageRows {
  const { resource } = owned;
  const children = shapeOf(owned).tables.slice(1);
  return { resource, history: profile.history, requestedAt, rows, children, records: written };
}

async function findDifference(
  { warehouse, owned, profile, clock }: LoadContext,
  policy: OlderPolicy,
  shape: ResourceShape,
  { keyed, tombstones, requestedAt }: Pick<PreparedPage, 'keyed' | 'tombstones'> & { requestedAt: string },
): Promise<Difference> {
  const { resource } = owned;
  const [table] = shape.tables;
  if (table === undefined) throw new Error(`the shape of ${resource} has no table`);
  const updated = updatedColumns(table.columns, profile);
  const rows = await warehouse.rows.stored(table, keyed.map(keyOf), updated);
  const stored = asMoments(rows, updated, profile);
  const found = difference(keyed, stored, requestedAt, policy, timestampText(clock.now()), tombstones);
  if (!warehouse.keepsMicroseconds) found.cutTime = finerTime(found.inserts);
  if (profile.history === 'none' || found.updates.length === 0) return found;

  const bodies = await currentBodies(warehouse.own, resource, found.updates.map(keyOf));
  const compared = comparedPart(profile.fields);
  const before = new Map<string, JsonValue>();
  // The same members in another order, or other spacing, is no change.
  const changed = found.updates.filter(({ key, value }) => {
    const body = bodies.get(key);
    if (body === undefined || stored.get(key)?.deletedAt !== null) return true;
    const known = storedValue(body, profile);
    before.set(key, known);
    return !sameJson(compared(known), compared(value));
  });
  const unchanged = found.unchanged + found.updates.length - changed.length;
  const keys = new Set(found.overwritten.length === 0 ? [] : changed.map(keyOf));
  const overwritten = found.overwritten.filter((key) => keys.has(key));
  return {
    ...found,
    updates: changed,
    unchanged,
    overwritten,
    volatile: volatileFields(keyed, changed, before, profile),
  };
}

/** Records that are looked at for it. */
const SAMPLE_SIZE = 10;

function finerTime(records: readonly KeyedRecord[]): string | null {
  const texts = records.slice(0, SAMPLE_SIZE).flatMap(({ updated }) => updated?.text ?? []);
  return texts.find((text) => /\.\d{3}\d*[1-9]/.test(text)) ?? null;
}

/** Of fewer records a page shows nothing. */
const LEAST_VOLATILE = 10;
const NEARLY_ALL = 0.9;

/** Fields that differ from the stored bodies in nearly all records of a page, whose times of change have not moved. */
function volatileFields(
  keyed: readonly KeyedRecord[],
  changed: readonly KeyedRecord[],
  before: ReadonlyMap<string, JsonValue>,
  profile: ResourceProfile,
): string[] {
  const least = Math.max(LEAST_VOLATILE, keyed.length * NEARLY_ALL);
  if (changed.length < least) return [];
  const counts = new Map<string, number>();
  for (const { key, value, updated } of changed) {
    const known = before.get(key) ?? null;
    if (updated === null || updatedTime(known, profile)?.at !== updated.at) continue;
    const paths = recordDifferences(known, value).map(({ path }) => path.replaceAll('[]', ''));
    for (const path of new Set(paths)) counts.set(path, (counts.get(path) ?? 0) + 1);
  }
  return [...counts].flatMap(([path, count]) => (count >= least && path !== '' ? [path] : []));
}

/** Those of the records that have a live row which was written before this time. */
async function lostAmong(
  { warehouse, profile }: LoadContext,
  { tables: [table] }: ResourceShape,
  leftOut: readonly LeftOut[],
  before: string,
): Promise<LostRow[]> {
  if (leftOut.length === 0 || table === undefined) return [];
  const updated = updatedColumns(table.columns, profile);
  const stored = asMoments(await warehouse.rows.stored(table, leftOut.map(keyOf), updated), updated, profile);
  return leftOut.flatMap((record) => {
    const row = stored.get(record.key);
    if (row === undefined || row.deletedAt !== null || row.syncedAt > before) return [];
    return [{ key: record.key, isOlder: isOlder(record.updated, row.updated) }];
  });
}

/** A column of any type but timestamp holds the service's own text, whose local times are still to be read. */
function asMoments(
  stored: ReadonlyMap<string, StoredRow>,
  updated: readonly Column[],
  profile: ResourceProfile,
): ReadonlyMap<string, StoredRow> {
  const zone = storedZone(updated, profile);
  if (zone === null) return stored;
  const moments = [...stored].map(([key, row]) => {
    const moment = typeof row.updated === 'string' ? toTimestampText(row.updated, zone) : null;
    return [key, { ...row, updated: moment ?? row.updated }] as const;
  });
  return new Map(moments);
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
  /** True if an older state of a record, by the service's clock, is accepted: it was read alone. */
  acceptsOlder: boolean;
  /** Older states that a whole walk has shown before (`canonicalHash` by key): shown once more they are accepted. */
  seenBefore?: ReadonlyMap<string, string>;
  /** When the walk began that the records are of; absent if they are of none. */
  scanStartedAt?: string;
}

interface Difference {
  inserts: KeyedRecord[];
  /** Known, with another source than the stored one; their `version` is set. */
  updates: KeyedRecord[];
  /** Same source, or older than what is stored. */
  unchanged: number;
  /** Older than what is stored, which a listing that lags behind shows too: not accepted by itself. */
  older: KeyedRecord[];
  /** Tombstones of live rows. */
  stated: KeyedRecord[];
  /** Keys among the updates of rows that are deleted: they are back. */
  restored: string[];
  /** When the page was requested: the `_synced_at` of its rows. */
  stampedAt: string;
  /** Among the updates: those whose own clock went back. */
  wentBack: number;
  /**
   * Keys among the updates of rows that the same walk has written with an older state, of records that have not changed
   * since long before it: the listing shows states of one record, or another record has that key as well.
   */
  overwritten: string[];
  /** Fields that differ in nearly all records of the page, of which none has another time of change. */
  volatile?: string[];
  /** A time of change of a new record that the warehouse cuts to milliseconds; null for none. */
  cutTime?: string | null;
}

/**
 * Sorts records by what must be written. The later request wins. A record that is deleted here is back where it is
 * listed. What is older by the service's own clock is left alone if a lagging replica may have answered.
 */
export function difference(
  records: readonly KeyedRecord[],
  stored: ReadonlyMap<string, StoredRow>,
  requestedAt: string,
  policy: OlderPolicy,
  now: string,
  tombstones: ReadonlyMap<string, Tombstone> = new Map(),
): Difference {
  const stampedAt = stampFor(stored, requestedAt, now);
  const lists = { inserts: [], updates: [], older: [], stated: [], restored: [], overwritten: [] };
  const result: Difference = { ...lists, unchanged: 0, stampedAt, wentBack: 0 };
  for (const record of records) {
    const sort = tombstones.has(record.key) ? sortTombstone : sortIn;
    sort(result, record, stored.get(record.key), policy);
  }
  return result;
}

/** Of a record that never had a row, or is deleted already, nothing is written. */
function sortTombstone(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
  result.unchanged += 1;
  if (row === undefined || row.deletedAt !== null || row.syncedAt > result.stampedAt) return;
  const isDoubtful = isOlder(record.updated, row.updated) && !isAccepted(record, policy);
  (isDoubtful ? result.older : result.stated).push(record);
}

function sortIn(result: Difference, record: KeyedRecord, row: StoredRow | undefined, policy: OlderPolicy): void {
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

/** What differs without another time of change, such as a counter, says nothing. */
function isOverwriting({ updated }: KeyedRecord, row: StoredRow, { scanStartedAt }: OlderPolicy): boolean {
  if (scanStartedAt === undefined || row.syncedAt < scanStartedAt || updated === null) return false;
  const before = momentIn(row.updated);
  return before !== null && before < updated.at && latestOf(updated) < timestampMs(scanStartedAt) - MARGIN_MS;
}

/** Keys of deleted rows that these records bring back. */
export function restoredAmong({ restored }: Difference, written: readonly KeyedRecord[]): string[] {
  if (restored.length === 0) return [];
  const keys = new Set(written.map(({ key }) => key));
  return restored.filter((key) => keys.has(key));
}

function isAccepted(record: KeyedRecord, { acceptsOlder, seenBefore }: OlderPolicy): boolean {
  return acceptsOlder || seenBefore?.get(record.key) === canonicalHash(record.value);
}

/**
 * Rows with a time in the future were written before our clock was set back. A page that is requested now is later all
 * the same, and must not look older.
 */
function stampFor(stored: ReadonlyMap<string, StoredRow>, requestedAt: string, now: string): string {
  let stamp = requestedAt;
  for (const { syncedAt } of stored.values()) if (syncedAt > now && syncedAt > stamp) stamp = syncedAt;
  return stamp;
}

/** True if the service's own clock says that the record is from before the row with this time of change. */
function isOlder(updated: KeyedRecord['updated'], stored: Cell): boolean {
  const before = momentIn(stored);
  return updated !== null && before !== null && latestOf(updated) < before;
}

function momentIn(stored: Cell): number | null {
  return typeof stored === 'string' || typeof stored === 'number' ? (parseInstant(stored)?.epochMs ?? null) : null;
}
