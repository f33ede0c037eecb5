import type { ResourceProfile } from '../config/profile/profile.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import { currentBodies } from '../database/state/versions.ts';
import type { PageRows, StoredRow } from '../database/warehouse.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import type { Column, ResourceShape, TableRows } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { toTimestampText } from '../rows/columns/timestamps.ts';
import { storedZone, type Tombstone, tombstoneOf, updatedColumns, updatedTime } from '../rows/columns/updated-time.ts';
import { comparedPart } from '../rows/mask-fields.ts';
import { storedValue, takenIn } from '../rows/records/as-record.ts';
import { recordDifferences } from '../rows/records/record-difference.ts';
import { sameJson } from '../rows/records/record-key.ts';
import { difference, type Difference, isOlder, type OlderPolicy } from './difference.ts';
import {
  dropForgotten,
  type KeyClashes,
  type KeyedRecord,
  keyRecords,
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
