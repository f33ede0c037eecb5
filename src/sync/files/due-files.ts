// Finds out which files have to be fetched (are due), such as the image of a post that was just copied. `fetch-files.ts`
// calls it before it fetches them.
//
// A record names its files by URL. A search reads the rows that were written since the last search, compares the URLs in
// their stored bodies with the rows of `_sync_files`, and updates these. Once a day, after a full scan, and after a change
// of the settings it reads all rows.
import { hash } from 'node:crypto';
import { type CompiledQuery, sql } from 'kysely';
import type { FilesSettings } from '../../config/profile/file-fields.ts';
import type { FilePassageRow } from '../../database/own-tables.ts';
import { readTables } from '../../database/state/catalog.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import {
  deleteFilesOfRecords,
  readFileSearch,
  readLastFiles,
  readRecordsWithFiles,
  recheckFiles,
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
/** A search begins this long before the last one, because rows are stamped with the time of their request, not of the write. */
const SEARCH_LOOKBACK_MS = 3_600_000;
/** All rows are searched at this interval, in case a process was suspended before a write for longer than the lookback. */
const FULL_SEARCH_INTERVAL_MS = 86_400_000;
/** Shorter than the lookback of a search, because a changed row would trigger searches for that long. */
const QUICK_CHECK_LOOKBACK_MS = 60_000;

interface FileSearch extends FilesContext {
  lease: Lease;
  signal: AbortSignal;
}

/**
 * Searches the records of a resource that have changed since the last search: marks new and changed files as due, and files
 * of deleted records as deleted. Costs one query if nothing has changed.
 */
export async function markDueFiles(search: FileSearch, resource: string): Promise<void> {
  const { warehouse, clock, settings, lease, signal } = search;
  const { own } = warehouse;
  const now = clock.now();
  const table = await readTable(warehouse, resource);
  if (table === null) return;
  const last = await readFileSearch(own, resource);
  const settingsHash = hashFileSettings(settings, resource);
  const isFull = last === null || (await isFullSearchDue(warehouse, now, resource, last, settingsHash));
  const since = isFull ? null : timestampText(timestampMs(last.looked_at) - SEARCH_LOOKBACK_MS);
  const haveSettingsChanged = last !== null && last.settings !== settingsHash;
  for await (const rows of readRowsSince(warehouse, table, since)) {
    await updateFiles(search, resource, table, haveSettingsChanged, rows);
    signal.throwIfAborted();
  }
  if (isFull) await deleteVanishedFiles(search, resource, table);
  const at = timestampText(now);
  const { recheck } = settings;
  const rechecked = recheck === null ? [] : [recheckFiles(own, resource, timestampText(now - recheck), at)];
  const searched = { resource, settings: settingsHash, looked_at: at, full_at: isFull ? at : last.full_at };
  await warehouse.apply([...rechecked, ...saveFileSearch(own, searched)], lease.proof());
}

/** True if `markDueFiles` would find changed records; costs one query. */
export async function haveRecordsChanged(
  { warehouse, settings, now }: { warehouse: Warehouse; settings: FilesSettings; now: number },
  resource: string,
): Promise<boolean> {
  const table = await readTable(warehouse, resource);
  if (table === null) return false;
  const last = await readFileSearch(warehouse.own, resource);
  if (last === null) return true;
  if (await isFullSearchDue(warehouse, now, resource, last, hashFileSettings(settings, resource))) return true;
  const lookedAt = timestampMs(last.looked_at);
  // Files are rechecked every `recheck`; searching ten times per period is precise enough.
  if (settings.recheck !== null && now - lookedAt > settings.recheck / 10) return true;
  const since = timestampText(lookedAt - QUICK_CHECK_LOOKBACK_MS);
  const recent = sql`SELECT 1 FROM ${warehouse.rows.named(table.name)} WHERE "_synced_at" >= ${since} LIMIT 1`;
  return (await recent.execute(warehouse.own)).rows.length > 0;
}

async function readTable(warehouse: Warehouse, resource: string): Promise<TableShape | null> {
  return (await readTables(warehouse, resource))?.tables[0] ?? null;
}

/** After a change of this hash all records are searched again. */
function hashFileSettings({ kept: copiedFiles }: FilesSettings, resource: string): string {
  return hash('sha256', JSON.stringify(copiedFiles[resource] ?? []), 'hex').slice(0, 16);
}

async function isFullSearchDue(
  { own }: Warehouse,
  now: number,
  resource: string,
  { settings, full_at }: FilePassageRow,
  settingsHash: string,
): Promise<boolean> {
  const fullAt = timestampMs(full_at);
  if (settings !== settingsHash || now - fullAt > FULL_SEARCH_INTERVAL_MS) return true;
  const scanned = (await readCheckpoint(own, resource))?.last_full_at ?? null;
  return scanned !== null && timestampMs(scanned) > fullAt;
}

interface SearchedRow {
  id: string;
  hash: string;
  isDeleted: 0 | 1;
}

/** Reads the rows that were written since a time (null: all rows), in steps of some hundred. */
async function* readRowsSince(
  { own, rows: { named } }: Warehouse,
  { name, key: [first = ''] }: TableShape,
  since: string | null,
): AsyncGenerator<SearchedRow[]> {
  const key = sql.id(first);
  const isRecent = since === null ? sql`` : sql`AND "_synced_at" >= ${since}`;
  for (let after = '', hasMore = true; hasMore;) {
    const query = sql<SearchedRow>`SELECT ${key} AS "id", "_hash" AS "hash",
      CASE WHEN "_deleted_at" IS NULL THEN 0 ELSE 1 END AS "isDeleted"
      FROM ${named(name)} WHERE ${key} > ${after} ${isRecent} ORDER BY ${key} LIMIT ${ROWS_PER_STEP}`;
    const { rows } = await query.execute(own);
    if (rows.length > 0) yield rows;
    hasMore = rows.length === ROWS_PER_STEP;
    after = rows.at(-1)?.id ?? after;
  }
}

/** Updates the rows of files for those of the records that have changed. */
async function updateFiles(
  { warehouse, settings, profile: { resources }, listing, clock, lease, scrub }: FileSearch,
  resource: string,
  table: TableShape,
  haveSettingsChanged: boolean,
  rows: readonly SearchedRow[],
): Promise<void> {
  const { own } = warehouse;
  const profile = resources[resource];
  if (profile === undefined) return;
  const files = settings.kept[resource] ?? [];
  const known = await readLastFiles(own, resource, idsOf(rows));
  const changed = rows.filter(({ id, hash, isDeleted }) => {
    const current = known.get(id)?.filter(({ valid_to }) => valid_to === null) ?? [];
    if (isDeleted === 1) return current.length > 0;
    return haveSettingsChanged || current.length === 0 || current.some((row) => row.record_hash !== hash);
  });
  const [deleted, live] = [changed.filter((row) => row.isDeleted === 1), changed.filter((row) => row.isDeleted === 0)];
  const bodies = await currentBodies(own, resource, idsOf(live));
  const deletedRows = await warehouse.rows.stored(table, idsOf(deleted), []);
  const at = timestampText(clock.now());
  const stores = new Map(files.map(({ field, store }) => [field, store.name]));
  const statements: CompiledQuery[] = [];
  for (const { id, hash } of changed) {
    const body = bodies.get(id);
    const found = body === undefined ? [] : fileAddresses({ profile, listing }, files, id, storedValue(body, profile));
    const endedAt = deletedRows.get(id)?.deletedAt ?? at;
    const context = { resource, stores, isForced: haveSettingsChanged, at, endedAt, scrub };
    statements.push(...recordFileChanges(own, context, { id, hash, known: known.get(id) ?? [], found }));
  }
  if (statements.length > 0) await warehouse.apply(statements, lease.proof());
}

function idsOf(rows: readonly SearchedRow[]): string[] {
  return rows.map(({ id }) => id);
}

/** Deletes the rows of files whose records have no row any more, such as those that were deleted long ago. */
async function deleteVanishedFiles(
  { warehouse, lease }: FileSearch,
  resource: string,
  table: TableShape,
): Promise<void> {
  const { own } = warehouse;
  const checkpoint = await readCheckpoint(own, resource);
  // Until a restarted copy has ended its full scan, records without a row may still come.
  if (checkpoint?.last_full_at == null || checkpoint.walk_mode === 'full') return;
  for (let after = ''; ;) {
    const ids = await readRecordsWithFiles(own, resource, after, ROWS_PER_STEP);
    const rows = await warehouse.rows.stored(table, ids, []);
    const vanished = ids.filter((id) => !rows.has(id));
    const deletions = deleteFilesOfRecords(own, resource, vanished);
    if (deletions.length > 0) await warehouse.apply(deletions, lease.proof());
    after = ids.at(-1) ?? '';
    if (ids.length < ROWS_PER_STEP) return;
  }
}
