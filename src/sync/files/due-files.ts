// Finds the files that new and changed records name, and marks them as due.
import { createHash } from 'node:crypto';
import { type CompiledQuery, sql } from 'kysely';
import type { FilesSettings } from '../../config/file-stores.ts';
import type { FilePassageRow } from '../../database/own-tables.ts';
import { readTables } from '../../database/state/catalog.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import {
  deleteFilesOf,
  lastFiles,
  readFileSearch,
  recheckFiles,
  recordsWithFilesAfter,
  saveFileSearch,
} from '../../database/state/files.ts';
import type { Lease } from '../../database/state/leases.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { TableShape } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import type { FilesContext } from './fetch-file.ts';
import { fileAddresses } from './file-address.ts';
import { recordFileChanges } from './file-changes.ts';

const ROWS_PER_STEP = 500;
/** A search includes rows from this long before the last one, because a row is written after its record was requested. */
const SEARCH_OVERLAP_MS = 3_600_000;
/**
 * All rows are searched at this interval, in case a process was suspended between response and write for longer than
 * the overlap.
 */
const FULL_SEARCH_MS = 86_400_000;
/** Shorter than the search's overlap, so that a changed row does not trigger searches for an hour. */
const QUICK_CHECK_OVERLAP_MS = 60_000;

interface FileSearch extends FilesContext {
  lease: Lease;
  signal: AbortSignal;
}

/**
 * Searches the records that are new or changed since the last search, marks their files as due, and ends files of deleted
 * records. Costs one query if nothing has changed.
 */
export async function markDueFiles(context: FileSearch, resource: string): Promise<void> {
  const { warehouse, clock, settings, lease, signal } = context;
  const { own } = warehouse;
  const now = timestampText(clock.now());
  const [table] = (await readTables(warehouse, resource))?.tables ?? [];
  if (table === undefined) return;
  const lastSearch = await readFileSearch(own, resource);
  const settingsHash = hashFileSettings(settings, resource);
  const searchesAllRows =
    lastSearch === null || (await isFullSearchDue(warehouse, clock.now(), resource, lastSearch, settingsHash));
  const since = searchesAllRows ? null : timestampText(timestampMs(lastSearch.looked_at) - SEARCH_OVERLAP_MS);
  const settingsChanged = lastSearch !== null && lastSearch.settings !== settingsHash;
  for (let after = ''; ;) {
    const rows = await rowsAfter(warehouse, table, since, after);
    await markChangedFiles(context, resource, table, settingsChanged, rows);
    signal.throwIfAborted();
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_STEP) break;
    after = last.id;
  }
  if (searchesAllRows) await deleteVanishedFiles(context, resource, table);
  const { recheck } = settings;
  const again = recheck === null ? [] : [recheckFiles(own, resource, timestampText(clock.now() - recheck), now)];
  const searched = {
    resource,
    settings: settingsHash,
    looked_at: now,
    full_at: searchesAllRows ? now : lastSearch.full_at,
  };
  await warehouse.apply([...again, ...saveFileSearch(own, searched)], lease.proof());
}

/** True if `markDueFiles` has something to search; costs one query. */
export async function haveRecordsChanged(
  { warehouse, settings, now }: { warehouse: Warehouse; settings: FilesSettings; now: number },
  resource: string,
): Promise<boolean> {
  const [table] = (await readTables(warehouse, resource))?.tables ?? [];
  if (table === undefined) return false;
  const lastSearch = await readFileSearch(warehouse.own, resource);
  if (
    lastSearch === null ||
    (await isFullSearchDue(warehouse, now, resource, lastSearch, hashFileSettings(settings, resource)))
  )
    return true;
  const lookedAt = timestampMs(lastSearch.looked_at);
  // Files are rechecked every `recheck`; searching ten times per period is precise enough.
  if (settings.recheck !== null && now - lookedAt > settings.recheck / 10) return true;
  const since = timestampText(lookedAt - QUICK_CHECK_OVERLAP_MS);
  const recent = sql`SELECT 1 FROM ${warehouse.rows.named(table.name)} WHERE "_synced_at" >= ${since} LIMIT 1`;
  return (await recent.execute(warehouse.own)).rows.length > 0;
}

/** A hash of the profile's entries about a resource's files: after a change all records are searched again. */
function hashFileSettings({ kept }: FilesSettings, resource: string): string {
  return createHash('sha256')
    .update(JSON.stringify(kept[resource] ?? []))
    .digest('hex')
    .slice(0, 16);
}

async function isFullSearchDue(
  { own }: Warehouse,
  now: number,
  resource: string,
  { settings, full_at }: FilePassageRow,
  settingsHash: string,
): Promise<boolean> {
  const fullAt = timestampMs(full_at);
  if (settings !== settingsHash || now - fullAt > FULL_SEARCH_MS) return true;
  const scanned = (await readCheckpoint(own, resource))?.last_full_at ?? null;
  return scanned !== null && timestampMs(scanned) > fullAt;
}

interface SearchedRow {
  id: string;
  hash: string;
  /** 1 for a deleted row. */
  gone: number;
}

/** Rows after the key `after` that were written since a time, or all of them, in the order of their keys. */
async function rowsAfter(
  { own, rows: { named } }: Warehouse,
  { name, key: [first = ''] }: TableShape,
  since: string | null,
  after: string,
): Promise<SearchedRow[]> {
  const key = sql.id(first);
  const isRecent = since === null ? sql`` : sql`AND "_synced_at" >= ${since}`;
  const { rows } = await sql<SearchedRow>`SELECT ${key} AS "id", "_hash" AS "hash",
    CASE WHEN "_deleted_at" IS NULL THEN 0 ELSE 1 END AS "gone"
    FROM ${named(name)} WHERE ${key} > ${after} ${isRecent} ORDER BY ${key} LIMIT ${ROWS_PER_STEP}`.execute(own);
  return rows;
}

async function markChangedFiles(
  { warehouse, settings, profile: whole, listing, clock, lease, scrub }: FileSearch,
  resource: string,
  table: TableShape,
  settingsChanged: boolean,
  rows: readonly SearchedRow[],
): Promise<void> {
  const { own } = warehouse;
  const profile = whole.resources[resource];
  const files = settings.kept[resource] ?? [];
  if (rows.length === 0 || profile === undefined) return;
  const known = await lastFiles(own, resource, idsOf(rows));
  const changed = rows.filter(({ id, hash, gone }) => {
    const currentFiles = known.get(id)?.filter(({ valid_to }) => valid_to === null) ?? [];
    if (gone === 1) return currentFiles.length > 0;
    return settingsChanged || currentFiles.length === 0 || currentFiles.some((row) => row.record_hash !== hash);
  });
  const bodies = await currentBodies(own, resource, idsOf(changed.filter(({ gone }) => gone === 0)));
  const deleted = await warehouse.rows.stored(table, idsOf(changed.filter(({ gone }) => gone === 1)), []);
  const at = timestampText(clock.now());
  const stores = new Map(files.map(({ field, store }) => [field, store.name]));
  const statements = changed.flatMap(({ id, hash }): CompiledQuery[] => {
    const body = bodies.get(id);
    const found = body === undefined ? [] : fileAddresses({ profile, listing }, files, id, storedValue(body, profile));
    const endedAt = deleted.get(id)?.deletedAt ?? at;
    const record = { id, hash, known: known.get(id) ?? [], found };
    return recordFileChanges(own, { resource, stores, isForced: settingsChanged, at, endedAt, scrub }, record);
  });
  if (statements.length > 0) await warehouse.apply(statements, lease.proof());
}

function idsOf(rows: readonly SearchedRow[]): string[] {
  return rows.map(({ id }) => id);
}

/** Deletes the files of records that have no row any more, such as those that were deleted long ago. */
async function deleteVanishedFiles(
  { warehouse, lease }: FileSearch,
  resource: string,
  table: TableShape,
): Promise<void> {
  const { own } = warehouse;
  const checkpoint = await readCheckpoint(own, resource);
  // A copy that restarted has not loaded all rows yet.
  if (checkpoint?.last_full_at == null || checkpoint.walk_mode === 'full') return;
  for (let after = ''; ;) {
    const ids = await recordsWithFilesAfter(own, resource, after, ROWS_PER_STEP);
    const rows = await warehouse.rows.stored(table, ids, []);
    const vanished = ids.filter((id) => !rows.has(id));
    const deletions = deleteFilesOf(own, resource, vanished);
    if (deletions.length > 0) await warehouse.apply(deletions, lease.proof());
    after = ids.at(-1) ?? '';
    if (ids.length < ROWS_PER_STEP) return;
  }
}
