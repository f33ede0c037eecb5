// Lists the partitions of a resource: the listings that together have all its records, as they are now.
//
// Example: a service lists comments only by post, at `/posts/{id}/comments`. Then `comments` has one listing for each live
// row of `posts`, which is the parent. Every scan asks for them first (`loadPages`).
import type { PartitionProfile } from '../../config/profile/request-fields.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { readTables } from '../../database/state/catalog.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { lastScanStart } from '../../database/state/runs.ts';
import { fieldPathText } from '../../model/body-path.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { keyParts } from '../../pagination/read-item.ts';
import type { Partitions } from '../../pagination/scan-partitions.ts';
import { pathText } from '../../rows/columns/column-name.ts';
import { keyFingerprints } from '../../rows/records/record-key.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';

/** The number of keys per query. A longer query would delay other work. */
const KEYS_PER_STEP = 5_000;
/** A row may be written this long after its record was requested. */
const MAX_WRITE_DELAY_MS = 120_000;

/**
 * Returns one listing for each value that the profile names, or for each live row of the parent. With `changed_only`, an
 * incremental scan gets those of the parents that changed since the last scan, and that of the record which verifies the
 * filter. Throws `SyncError` (`parent_not_synced`) if no full scan of the parent has come to its end.
 */
export async function listPartitions(
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
  const hasFilter = context.profile.incremental !== null && cursor_key !== null;
  const cursorParent = hasFilter ? keyParts(context.profile, cursor_key).partition : null;
  const chosen = parents.filter(({ value, syncedAt }) => since === null || syncedAt >= since || value === cursorParent);
  const changed = parents.filter(({ syncedAt }) => walk_started_at !== null && syncedAt >= walk_started_at);
  return { values: sortedValues(chosen), changed: sortedValues(changed), mayBeGone: true, storedKeys, now };
}

/** Returns the fingerprints of the keys of the stored rows that came from one listing. */
async function keysOfListing({ warehouse, owned, profile, signal }: RunContext, value: string): Promise<Uint8Array> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return new Uint8Array();
  // Keys are sorted by their bytes. If the field of the listing is the first part of the key, its rows are neighbours.
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

function sortedValues(parents: readonly Parent[]): string[] {
  const values = new Set(parents.map(({ value }) => value));
  return [...values].toSorted((a, b) => (a < b ? -1 : 1));
}

async function liveParents(
  { warehouse, signal }: ResourceContext,
  profile: Extract<PartitionProfile, { parent: string }>,
): Promise<Parent[]> {
  const name = profile.parent ?? '';
  const table = (await readTables(warehouse, name))?.tables[0];
  if (table === undefined) throw notSynced(name);
  // The id has no column: if it is the field that names the listing, the value is the key.
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

/** Creates the error for a parent whose rows may be incomplete in this run. */
export function notSynced(parent: string): SyncError {
  return new SyncError('parent_not_synced', `the listings are those of the rows of ${parent}, which are not all here`, {
    recovery: 'stop',
    hint: `sync ${parent} first, or both in one run: content-sync sync`,
  });
}
