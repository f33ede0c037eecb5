import type { SourceRecord } from '../model/json.ts';
import type { Column, ResourceShape, TableRows } from '../model/table.ts';
import { zoneAt } from '../model/time-zone.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { sameJson } from '../shape/records/fingerprint.ts';
import { parseJson } from '../shape/json/parse-json.ts';
import { shapeRecords, type ShapedPage } from '../shape/shape-page.ts';
import { toTimestampText } from '../shape/columns/timestamps.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { currentBodies } from '../state/versions.ts';
import { difference, type Difference } from './difference.ts';
import { keyRecords, type KeyClashes, type KeyedRecord, type SetAside } from './key-records.ts';
import type { PageRows, StoredRow } from '../warehouse/warehouse.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import type { LoaderOptions } from './load-context.ts';

export interface LoadablePage {
  records: readonly SourceRecord[];
  /** Local epoch milliseconds just before the page was asked for. */
  requestedAt: number;
}

/** A page that is understood: what in it is new or changed, by what the warehouse holds. */
export interface PreparedPage {
  keyed: readonly KeyedRecord[];
  /** Records without a usable id. */
  setAside: readonly SetAside[];
  clashes: KeyClashes;
  found: Difference;
  /** What must be written: the new ones, then the changed ones. */
  fresh: readonly KeyedRecord[];
  /** Them as rows; null where the tables must grow first. */
  shaped: ShapedPage | null;
}

/** Reads and computes, and changes nothing. Throws `SyncError`. */
export async function preparePage(
  options: LoaderOptions,
  shape: ResourceShape,
  page: LoadablePage,
): Promise<PreparedPage> {
  const { profile, warehouse } = options;
  const { keyed, setAside, clashes } = keyRecords(page.records, profile);
  const found = await findDifference(options, shape, keyed, timestampText(page.requestedAt));
  const fresh = [...found.inserts, ...found.updates];
  const shaped = shapeRecords({ shape, profile, records: fresh });
  if (shaped.shape !== shape) return { keyed, setAside, clashes, found, fresh, shaped: null };
  if (shaped.setAside.length === 0) warehouse.prepare(pageRows(options, shape, shaped.rows, fresh, found.stampedAt));
  return { keyed, setAside, clashes, found, fresh, shaped };
}

/** What is written of a page: `written` are the records of the rows of the resource's own table. */
export function pageRows(
  { owned, profile }: LoaderOptions,
  shape: ResourceShape,
  rows: readonly TableRows[],
  written: readonly KeyedRecord[],
  requestedAt: string,
): PageRows {
  const { resource } = owned;
  return { resource, history: profile.history, requestedAt, rows, children: shape.tables.slice(1), records: written };
}

async function findDifference(
  options: LoaderOptions,
  shape: ResourceShape,
  keyed: readonly KeyedRecord[],
  requestedAt: string,
): Promise<Difference> {
  const { warehouse, owned, profile, reading, clock } = options;
  const { resource } = owned;
  const [table] = shape.tables;
  if (table === undefined) throw new Error(`the shape of ${resource} has no table`);
  const updated = table.columns.find((column) => column.path.join('.') === profile.updated);
  const rows = await warehouse.stored(table, keyed.map(keyOf), updated?.name ?? null);
  const stored = updated === undefined ? rows : asMoments(rows, updated, profile);
  const found = difference(keyed, stored, requestedAt, reading, timestampText(clock.now()));
  if (profile.history === 'none' || found.updates.length === 0) return found;

  const bodies = await currentBodies(warehouse.own, resource, found.updates.map(keyOf));
  // The same members in another order, or other spacing, is no change.
  const changed = found.updates.filter(({ key, value }) => {
    const body = bodies.get(key);
    return body === undefined || stored.get(key)?.deletedAt !== null || !sameJson(parseJson(body), value);
  });
  return { ...found, updates: changed, unchanged: found.unchanged + found.updates.length - changed.length };
}

/** What a column of another type holds is the service's own text: then its local times are still to be read. */
function asMoments(
  stored: ReadonlyMap<string, StoredRow>,
  { type }: Column,
  { times, updated }: ResourceProfile,
): ReadonlyMap<string, StoredRow> {
  const zone = type === 'timestamp' ? null : zoneAt(times, updated);
  if (zone === null) return stored;
  const moments = [...stored].map(([key, row]) => {
    const moment = typeof row.updated === 'string' ? toTimestampText(row.updated, zone) : null;
    return [key, { ...row, updated: moment ?? row.updated }] as const;
  });
  return new Map(moments);
}

export function shapeOf({ shape, resource }: OwnedResource): ResourceShape {
  if (shape === null) throw new Error(`the tables of ${resource} were not opened`);
  return shape;
}

export function keyOf(record: { key: string }): string {
  return record.key;
}
