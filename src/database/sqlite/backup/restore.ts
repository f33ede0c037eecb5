import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import { z } from 'zod';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError, messageOf, SyncError } from '../../../model/errors.ts';
import type { RestoreReport, RestoreRequest } from '../../database.ts';
import type { DeliveryRow, Inbox } from '../../inbox.ts';
import { isUpToDate, WAREHOUSE_MIGRATIONS } from '../../migrate.ts';
import type { ForgottenRow } from '../../own-tables.ts';
import type { Warehouse } from '../../warehouse.ts';
import { databaseError, hasErrorCode, isBusy } from '../connection/errors.ts';
import { stepsDone } from '../connection/open-file.ts';
import { openInbox, openInboxFile } from '../inbox/open-inbox.ts';
import {
  BACKUP_FORMAT,
  copyRows,
  DELIVERIES_TABLE,
  findDamage,
  ORIGIN_TABLE,
  type SourceFiles,
  decideRestore,
  finishRestore,
  RESTORED,
} from './back-up.ts';

/** Opens and migrates a file. */
type OpenWarehouse = (file: string, clock: Clock) => Promise<Warehouse>;

const originSchema = z.object({
  format: z.int().positive(),
  source: z.string(),
  taken_at: z.iso.datetime(),
  content_sync: z.string(),
});

const DAMAGED = /^SQLITE_(?:CORRUPT|NOTADB)/;

/**
 * Replaces warehouse and inbox by those of a backup: both or none, also if the process is killed. Deliveries that were
 * acknowledged after the backup wait in the restored inbox; records that were erased after it are requested to be erased
 * again. Throws `ConfigError` or `warehouse_in_use`; then nothing was changed.
 */
export async function restore(
  files: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<RestoreReport> {
  finishRestore(files.inbox);
  const restored = { warehouse: `${files.warehouse}${RESTORED}`, inbox: `${files.inbox}${RESTORED}` };
  try {
    removeFiles(restored);
    mkdirSync(path.dirname(files.warehouse), { recursive: true });
    const takenAt = await unpack(files, restored, request);
    return { takenAt, ...(await replace(files, restored, request, openWarehouse)) };
  } catch (error) {
    throw databaseError(error, files.warehouse);
  } finally {
    // A completed restore has renamed them.
    removeFiles(restored);
  }
}

function removeFiles(restored: SourceFiles): void {
  for (const file of Object.values(restored)) {
    for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${end}`, { force: true });
  }
}

/** Writes the files next to those that they replace, and returns the time of the backup. */
async function unpack(
  files: SourceFiles,
  restored: SourceFiles,
  { from, source, clock, signal }: RestoreRequest,
): Promise<number> {
  await copyFile(from, restored.warehouse).catch((error: unknown) => {
    throw new ConfigError('backup_missing', `${from} cannot be read: ${messageOf(error)}`, {
      hint: 'check the path, and that this user may read it',
      cause: error,
    });
  });
  signal.throwIfAborted();
  const db = new Database(restored.warehouse);
  try {
    db.pragma('synchronous = FULL');
    const origin = verifyBackup(db, from, source);
    const hasInbox = hasTable(db, DELIVERIES_TABLE);
    // An existing inbox has later deliveries, which need an inbox to be kept in.
    if (hasInbox || existsSync(files.inbox)) {
      const inbox = await openInboxFile(restored.inbox, clock);
      const copy = (): void => copyRows(db, DELIVERIES_TABLE, inbox.db, '_sync_deliveries', signal);
      if (hasInbox) inbox.db.transaction(copy)();
      await inbox.close();
    }
    // Free pages keep nothing of the dropped tables.
    db.pragma('secure_delete = ON');
    db.exec(`DROP TABLE ${ORIGIN_TABLE}; DROP TABLE IF EXISTS ${DELIVERIES_TABLE}; ${FREE_LEASES}`);
    return Date.parse(origin.taken_at);
  } catch (error) {
    throw hasErrorCode(error, DAMAGED) ? invalid(from, messageOf(error)) : error;
  } finally {
    db.close();
  }
}

const FREE_LEASES = `UPDATE _sync_leases SET expires_at = '1970-01-01 00:00:00'`;

/** Throws `ConfigError` if the file is no complete backup of the source that this version can read. */
function verifyBackup(db: Database.Database, from: string, source: string): z.output<typeof originSchema> {
  if (!hasTable(db, ORIGIN_TABLE)) throw invalid(from, 'it is no backup of content-sync');
  const { data: origin } = originSchema.safeParse(db.prepare(`SELECT * FROM ${ORIGIN_TABLE}`).get());
  if (origin === undefined) throw invalid(from, 'it does not say what it is');
  if (origin.format > BACKUP_FORMAT) {
    throw new ConfigError('backup_newer', `${from} was written by a newer content-sync (${origin.content_sync})`, {
      hint: 'restore it with that version',
    });
  }
  if (origin.source !== source) {
    throw new ConfigError('backup_of_other', `${from} is a backup of the source ${origin.source}, not of ${source}`, {
      hint: `name that source with --source, or the backup of ${source}`,
    });
  }
  const damage = findDamage(db);
  if (damage !== null) throw invalid(from, `it is damaged: ${damage}`);
  isUpToDate(from, new Set(stepsDone(db)), WAREHOUSE_MIGRATIONS);
  return origin;
}

function hasTable(db: Database.Database, table: string): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined;
}

function invalid(shown: string, why: string): ConfigError {
  return new ConfigError('backup_invalid', `${shown}: ${why}`, {
    hint: 'name a file that content-sync backup has written, and that was copied whole',
  });
}

/** Replaces the files while no other program has them open. */
async function replace(
  files: SourceFiles,
  restored: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<Omit<RestoreReport, 'takenAt'>> {
  const locked: (Database.Database | null)[] = [];
  try {
    const warehouse = lockExclusively(files.warehouse);
    locked.push(warehouse);
    const inbox = lockExclusively(files.inbox);
    locked.push(inbox);
    const deliveries = await keepLaterDeliveries(inbox, restored.inbox, request.clock);
    const forgotten = await carryForgotten(warehouse, restored, request, openWarehouse);
    request.signal.throwIfAborted();
    const replaced = [files.warehouse, files.inbox].filter((file) => existsSync(`${file}${RESTORED}`));
    decideRestore(files.inbox, replaced);
    finishRestore(files.inbox);
    return { deliveries, forgotten };
  } finally {
    for (const each of locked.toReversed()) each?.close();
  }
}

/**
 * Verifies that no other connection has the file open, and prevents others until it is closed. Its log is copied into
 * it. Returns null if there is no file, or a damaged one, which is to be replaced. Throws `warehouse_in_use`.
 */
function lockExclusively(file: string): Database.Database | null {
  if (!existsSync(file)) {
    moveLogAway(file);
    return null;
  }
  const db = new Database(file, { timeout: 0 });
  try {
    // Only a single connection can leave the WAL mode.
    if (db.pragma('journal_mode = DELETE', { simple: true }) !== 'delete') throw inUse(file);
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE');
    return db;
  } catch (error) {
    db.close();
    if (isBusy(error)) throw inUse(file, error);
    if (!hasErrorCode(error, DAMAGED)) throw error;
    moveLogAway(file);
    return null;
  }
}

/** SQLite would read the log as that of the restored file. */
function moveLogAway(file: string): void {
  for (const end of ['-wal', '-journal']) if (existsSync(file + end)) renameSync(file + end, `${file}${end}.left`);
  rmSync(`${file}-shm`, { force: true });
}

function inUse(file: string, cause?: unknown): SyncError {
  return new SyncError('warehouse_in_use', `${file} is in use by another program`, {
    recovery: 'stop',
    hint: 'stop content-sync (serve, sync) and whatever reads the file, then run the same command again',
    cause,
  });
}

/** Runs before the decision, so that erased records are never restored without the request to erase them again. */
async function carryForgotten(
  db: Database.Database | null,
  restored: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<number | null> {
  const erased = db === null ? null : readForgottenRecords(db);
  if (erased === null || erased.length === 0) return erased?.length ?? null;
  const opened: (Warehouse | Inbox)[] = [];
  try {
    const warehouse = await openWarehouse(restored.warehouse, request.clock);
    opened.push(warehouse);
    const inbox = existsSync(restored.inbox) ? await openInbox(restored.inbox, request.clock) : null;
    if (inbox !== null) opened.push(inbox);
    return await request.carryForgotten({ warehouse, inbox }, erased);
  } finally {
    for (const each of opened) await each.close();
    for (const file of Object.values(restored)) checkpointWal(file);
  }
}

/** The erased records that a warehouse knows of; null if it is damaged. */
function readForgottenRecords(db: Database.Database): ForgottenRow[] | null {
  try {
    // Early versions have no such table.
    return hasTable(db, '_sync_forgotten') ? db.prepare<[], ForgottenRow>('SELECT * FROM _sync_forgotten').all() : [];
  } catch (error) {
    if (hasErrorCode(error, DAMAGED)) return null;
    throw error;
  }
}

/** Copies the log into its file, which can then be renamed. */
function checkpointWal(file: string): void {
  if (!existsSync(file)) return;
  const db = new Database(file);
  db.pragma('synchronous = FULL');
  db.pragma('journal_mode = DELETE');
  db.close();
}

/**
 * Adds all deliveries that were acknowledged after the backup to the restored inbox, as waiting: the restored warehouse
 * does not have their records. Returns their number; null if the replaced inbox cannot be read.
 */
async function keepLaterDeliveries(
  replaced: Database.Database | null,
  restored: string,
  clock: Clock,
): Promise<number | null> {
  if (!existsSync(restored)) return 0;
  const opened = await openInboxFile(restored, clock);
  try {
    opened.db.pragma('secure_delete = ON');
    return replaced === null ? null : opened.db.transaction(() => mergeDeliveries(replaced, opened.db))();
  } catch (error) {
    // Damaged, or written by a version with other columns.
    if (hasErrorCode(error, /^SQLITE_(?:CORRUPT|NOTADB|ERROR)/)) return null;
    throw error;
  } finally {
    await opened.close();
    checkpointWal(restored);
  }
}

const ACKNOWLEDGED = `SELECT seq, delivery_id, received_at, headers, body, size, differs_from, events
  FROM _sync_deliveries WHERE state <> 'ignored' ORDER BY seq`;
const ADD = `INSERT INTO _sync_deliveries (delivery_id, received_at, headers, body, size, differs_from)
  VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (delivery_id) DO NOTHING`;
/** It came again after the backup, and may have been processed for the replaced warehouse only. */
const WAIT_AGAIN = `UPDATE _sync_deliveries SET state = 'waiting', attempts = 0, due_at = NULL, finished_at = NULL, reason = NULL,
  events = ? WHERE delivery_id = ? AND events < ?`;
const ERASE = `UPDATE _sync_deliveries SET state = CASE state WHEN 'waiting' THEN 'done' ELSE state END, due_at = NULL,
  headers = '{}', body = x'', size = 0, record_id = NULL, differs_from = NULL, reason = 'it was erased after the backup',
  delivery_id = 'erased-' || seq WHERE seq = ? AND received_at = ?`;
/** The id of a delivery that was erased. */
const ERASED_ID = /^erased-\d+$/;

function mergeDeliveries(replaced: Database.Database, restored: Database.Database): number {
  const [add, wait, erase] = [restored.prepare(ADD), restored.prepare(WAIT_AGAIN), restored.prepare(ERASE)];
  let count = 0;
  for (const delivery of replaced.prepare<[], DeliveryRow>(ACKNOWLEDGED).iterate()) {
    const { seq, delivery_id, received_at, headers, body, size, differs_from, events } = delivery;
    if (size === 0 && ERASED_ID.test(delivery_id)) erase.run(seq, received_at);
    else {
      count += add.run(delivery_id, received_at, headers, body, size, differs_from).changes;
      count += wait.run(events, delivery_id, events).changes;
    }
  }
  return count;
}
