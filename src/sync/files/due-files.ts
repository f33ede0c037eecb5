import { createHash } from 'node:crypto';
import { sql, type CompiledQuery } from 'kysely';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { FilesSettings, KeptFile } from '../../config/file-stores.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { readTables } from '../../database/state/column-catalog.ts';
import {
  readPassage,
  savePassage,
  deleteFilesOf,
  lastFiles,
  recheckFiles,
  shownRecordsAfter,
} from '../../database/state/files/record-files.ts';
import type { Lease } from '../../database/state/leases.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { TableShape } from '../../model/table.ts';
import type { FilePassageRow } from '../../database/file-rows.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import { fileAddresses } from './file-address.ts';
import { changesOf } from './file-changes.ts';
import type { FilesContext } from './fetch-file.ts';

/** Rows that are looked at together. */
const ROWS_PER_STEP = 500;
/** A row may be written so long after its record was asked for. */
const LATE_MS = 3_600_000;
/** All rows are looked at so often, whatever happens: for a machine that slept between an answer and its rows. */
const FULL_MS = 86_400_000;

interface Look extends FilesContext {
  lease: Lease;
  signal: AbortSignal;
}

/**
 * Finds the files of records that are new, or have changed since they were last looked at, and has them fetched; files
 * of records that are gone are shown no more. Costs one question where nothing has changed.
 */
export async function lookForFiles(context: Look, resource: string): Promise<void> {
  const { warehouse, clock, settings, lease, signal } = context;
  const { own } = warehouse;
  const files = settings.kept[resource] ?? [];
  const now = timestampText(clock.now());
  const [table] = (await readTables(warehouse, resource))?.tables ?? [];
  if (table === undefined) return;
  const passage = await readPassage(own, resource);
  const marked = fingerprintOf(files);
  const isFull = await isFullDue({ warehouse, now: clock.now() }, resource, passage, marked);
  const since = isFull || passage === null ? null : timestampText(timestampMs(passage.looked_at) - LATE_MS);
  const isForced = passage !== null && passage.settings !== marked;
  for (let after = ''; ;) {
    const rows = await rowsAfter(context, table, since, after);
    await settleRows(context, { resource, table, isForced }, rows);
    signal.throwIfAborted();
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_STEP) break;
    after = last.id;
  }
  if (isFull) await forgetVanished(context, resource, table);
  const { recheck } = settings;
  const again = recheck === null ? [] : [recheckFiles(own, resource, timestampText(clock.now() - recheck), now)];
  const looked = { resource, settings: marked, looked_at: now, full_at: isFull ? now : (passage?.full_at ?? now) };
  await warehouse.apply([...again, savePassage(own, looked)], lease.proof());
}

/** So much earlier than the last look: what was under way then is found as well, while a source is at work. */
const LOOKBACK_MS = 60_000;

/** Whether `lookForFiles` is due, as far as one question tells. */
export async function haveRecordsChanged(
  { warehouse, settings, now }: { warehouse: Warehouse; settings: FilesSettings; now: number },
  resource: string,
): Promise<boolean> {
  const [table] = (await readTables(warehouse, resource))?.tables ?? [];
  if (table === undefined) return false;
  const passage = await readPassage(warehouse.own, resource);
  if (passage === null) return true;
  const isFull = await isFullDue({ warehouse, now }, resource, passage, fingerprintOf(settings.kept[resource] ?? []));
  if (isFull || isRecheckDue(settings, passage, now)) return true;
  const since = timestampText(timestampMs(passage.looked_at) - LOOKBACK_MS);
  const { rows } =
    await sql`SELECT 1 FROM ${warehouse.named(table.name)} WHERE "_synced_at" >= ${since} LIMIT 1`.execute(
      warehouse.own,
    );
  return rows.length > 0;
}

/** A tenth of the time that a file may be old is exact enough. */
function isRecheckDue({ recheck }: FilesSettings, { looked_at }: FilePassageRow, now: number): boolean {
  return recheck !== null && now - timestampMs(looked_at) > recheck / 10;
}

/** What a profile says of a resource's files: under another text all records are looked at again. */
function fingerprintOf(files: readonly KeptFile[]): string {
  return createHash('sha256').update(JSON.stringify(files)).digest('hex').slice(0, 16);
}

async function isFullDue(
  { warehouse, now }: { warehouse: Warehouse; now: number },
  resource: string,
  passage: FilePassageRow | null,
  marked: string,
): Promise<boolean> {
  if (passage === null || passage.settings !== marked) return true;
  const fullAt = timestampMs(passage.full_at);
  if (now - fullAt > FULL_MS) return true;
  const walked = (await readCheckpoint(warehouse.own, resource))?.last_full_at ?? null;
  return walked !== null && timestampMs(walked) > fullAt;
}

interface SeenRow {
  id: string;
  hash: string;
  /** 1 for a row that is deleted. */
  gone: number;
}

/** Rows behind `after` that were written since a moment, or all of them, in the order of their keys. */
async function rowsAfter(
  { warehouse: { own, named } }: Look,
  { name, key: [first = ''] }: TableShape,
  since: string | null,
  after: string,
): Promise<SeenRow[]> {
  const key = sql.id(first);
  const isRecent = since === null ? sql`` : sql`AND "_synced_at" >= ${since}`;
  const { rows } = await sql<SeenRow>`SELECT ${key} AS "id", "_hash" AS "hash",
    CASE WHEN "_deleted_at" IS NULL THEN 0 ELSE 1 END AS "gone"
    FROM ${named(name)} WHERE ${key} > ${after} ${isRecent} ORDER BY ${key} LIMIT ${ROWS_PER_STEP}`.execute(own);
  return rows;
}

async function settleRows(
  context: Look,
  { resource, table, isForced }: { resource: string; table: TableShape; isForced: boolean },
  rows: readonly SeenRow[],
): Promise<void> {
  const { warehouse, settings, profile: whole, listing, clock, lease, scrub } = context;
  const { own } = warehouse;
  const profile = whole.resources[resource];
  const files = settings.kept[resource] ?? [];
  if (rows.length === 0 || profile === undefined) return;
  const known = await lastFiles(own, resource, idsOf(rows));
  const isNews = ({ id, hash, gone }: SeenRow): boolean => {
    const shown = known.get(id)?.filter(({ valid_to }) => valid_to === null) ?? [];
    if (gone === 1) return shown.length > 0;
    return isForced || shown.length === 0 || shown.some((row) => row.record_hash !== hash);
  };
  const news = rows.filter(isNews);
  const [live, gone] = [0, 1].map((each) => idsOf(news.filter((row) => row.gone === each)));
  const bodies = await currentBodies(own, resource, live ?? []);
  const deleted = await warehouse.stored(table, gone ?? [], []);
  const at = timestampText(clock.now());
  const stores = new Map(files.map(({ field, store }) => [field, store.name]));
  const statements = news.flatMap(({ id, hash }): CompiledQuery[] => {
    const body = bodies.get(id);
    const found = body === undefined ? [] : fileAddresses({ profile, listing }, files, id, storedValue(body, profile));
    const goneAt = deleted.get(id)?.deletedAt ?? at;
    const looked = { id, hash, known: known.get(id) ?? [], found };
    return changesOf(own, { resource, stores, isForced, at, goneAt, scrub }, looked);
  });
  if (statements.length > 0) await warehouse.apply(statements, lease.proof());
}

function idsOf(rows: readonly SeenRow[]): string[] {
  return rows.map(({ id }) => id);
}

/** Forgets files of records that have no row any more, such as those that were deleted long ago. */
async function forgetVanished({ warehouse, lease }: Look, resource: string, table: TableShape): Promise<void> {
  const { own } = warehouse;
  const checkpoint = await readCheckpoint(own, resource);
  // A copy that is made anew has not met all of them yet.
  if (checkpoint?.last_full_at == null || checkpoint.walk_mode === 'full') return;
  for (let after = ''; ;) {
    const ids = await shownRecordsAfter(own, resource, after, ROWS_PER_STEP);
    const there = await warehouse.stored(table, ids, []);
    const forgotten = deleteFilesOf(
      own,
      resource,
      ids.filter((id) => !there.has(id)),
    );
    if (forgotten.length > 0) await warehouse.apply(forgotten, lease.proof());
    after = ids.at(-1) ?? '';
    if (ids.length < ROWS_PER_STEP) return;
  }
}
