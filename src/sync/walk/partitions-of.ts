import type { Partitions } from '../../pagination/partitioned-walk.ts';
import { keyParts } from '../../pagination/read-item.ts';
import { fieldPathText } from '../../model/body-path.ts';
import { SyncError } from '../../model/errors.ts';
import type { TableShape } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { pathText } from '../../rows/columns/source-path.ts';
import { keyFingerprints } from '../../rows/records/key-fingerprint.ts';
import { parentOf, type PartitionProfile } from '../../config/profile/request-fields.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { readTables } from '../../database/state/column-catalog.ts';
import { lastWalkBegan } from '../../database/state/runs.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import type { Warning } from '../warnings.ts';

/** Keys of parents that are looked at before anything else gets its turn. */
const KEYS_PER_STEP = 5_000;
/** So long a row may be on its way into the warehouse after its record was asked for. */
const ON_ITS_WAY_MS = 120_000;

/**
 * The listings of a partitioned resource as they are now: the profile's values, or those of the live rows of the parent;
 * in an incremental walk perhaps only of those that changed since the last one, and that of the record which proves the
 * filter. Throws `SyncError` (`parent_not_synced`) if no full walk of the parent has come to its end; warns if that end
 * was not proved.
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
  if ('values' in profile) return { values: profile.values, late: [], mayBeGone: false, storedKeys, now };
  await proveParents(context, profile.parent);
  const isChangedOnly = profile.changed_only && walk_mode === 'incremental' && last_success_at !== null;
  const began = isChangedOnly ? await lastWalkBegan(warehouse.own, resource, last_success_at) : null;
  const since = began === null ? null : timestampText(timestampMs(began) - ON_ITS_WAY_MS);
  const parents = await liveParents(context, profile);
  const isFiltered = context.profile.incremental !== null && cursor_key !== null;
  const witness = isFiltered ? keyParts(context.profile, cursor_key).partition : null;
  const chosen = parents.filter(({ value, syncedAt }) => since === null || syncedAt >= since || value === witness);
  const late = parents.filter(({ syncedAt }) => walk_started_at !== null && syncedAt >= walk_started_at);
  return { values: valuesOf(chosen), late: valuesOf(late), mayBeGone: true, storedKeys, now };
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

async function proveParents({ warehouse, progress }: RunContext, parent: string): Promise<void> {
  const checkpoint = await readCheckpoint(warehouse.own, parent);
  if (checkpoint === null || (checkpoint.last_full_at ?? checkpoint.unproved_full_at) === null) throw notSynced(parent);
  const isTold = progress.warnings.some(({ code }) => code === 'parents_unproved');
  if (checkpoint.last_full_at === null && !isTold) progress.warnings.push(unprovedParents(parent));
}

interface Parent {
  value: string;
  /** When its row was last written. */
  syncedAt: string;
}

function valuesOf(parents: readonly Parent[]): string[] {
  const values = new Set(parents.map(({ value }) => value));
  return [...values].toSorted((a, b) => (a < b ? -1 : 1));
}

async function liveParents(
  { warehouse, signal }: ResourceContext,
  profile: Extract<PartitionProfile, { parent: string }>,
): Promise<Parent[]> {
  const name = parentOf({ partitions: profile }) ?? '';
  const table = (await readTables(warehouse, name))?.tables[0];
  if (table === undefined) throw notSynced(name);
  const column = columnOf(table, profile.parent_id);
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

/** Null for the key of the rows: the id has no column. */
function columnOf(table: TableShape, field: string | null) {
  return table.columns.find(({ path }) => field !== null && pathText(path) === fieldPathText(field)) ?? null;
}

function unprovedParents(parent: string): Warning {
  return {
    code: 'parents_unproved',
    message: `nothing proves that all rows of ${parent} are here, of which each has a listing`,
    hint: `see the warnings of ${parent}: its listing has to come to a proved end first`,
  };
}

/** Thrown if the rows of the parent cannot be relied on in this run. */
export function notSynced(parent: string): SyncError {
  return new SyncError('parent_not_synced', `the listings are those of the rows of ${parent}, which are not all here`, {
    recovery: 'stop',
    hint: `sync ${parent} first, or both in one run: content-sync sync`,
  });
}
