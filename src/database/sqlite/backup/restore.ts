import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import { z } from 'zod';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError, messageOf, SyncError } from '../../../model/errors.ts';
import type { RestoreReport, RestoreRequest } from '../../database.ts';
import type { Inbox } from '../../inbox.ts';
import { isUpToDate, WAREHOUSE_MIGRATIONS } from '../../migrate.ts';
import type { ForgottenRow } from '../../own-tables.ts';
import type { Warehouse } from '../../warehouse.ts';
import { databaseError, isBusy } from '../connection/errors.ts';
import { decideRestore, finishRestore, RESTORED } from '../connection/finish-restore.ts';
import { openInbox, openInboxFile } from '../inbox/open-inbox.ts';
import { ABOUT, BACKUP_FORMAT, damageOf, DELIVERIES, type SourceFiles } from './back-up.ts';

/** Opens a file, and brings it up to date. */
type OpenWarehouse = (file: string, clock: Clock) => Promise<Warehouse>;

const aboutSchema = z.object({
  format: z.int().positive(),
  source: z.string(),
  /** The moment as of which warehouse and inbox are. */
  taken_at: z.iso.datetime(),
  content_sync: z.string(),
});

/** Errors of a file that is no whole database. */
const DAMAGED = /^SQLITE_(?:CORRUPT|NOTADB)/;

/**
 * Puts warehouse and inbox of a backup in the place of those that are there: both or none, at whatever moment it is
 * killed. Deliveries that were acknowledged after the backup wait in the restored inbox, and records that were erased
 * after it are asked to be erased again. Throws `ConfigError`, and changes nothing, if the backup cannot be used, or
 * `warehouse_in_use`.
 */
export async function restore(
  files: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<RestoreReport> {
  finishRestore(files.inbox);
  const restored = { warehouse: `${files.warehouse}${RESTORED}`, inbox: `${files.inbox}${RESTORED}` };
  try {
    removeParts(restored);
    mkdirSync(path.dirname(files.warehouse), { recursive: true });
    const takenAt = await unpack(files, restored, request);
    const rest = await replace(files, restored, request, openWarehouse);
    return { takenAt, ...rest };
  } catch (error) {
    throw databaseError(error, files.warehouse);
  } finally {
    // Once it is decided, they have other names.
    removeParts(restored);
  }
}

function removeParts(restored: SourceFiles): void {
  for (const file of Object.values(restored)) {
    for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${end}`, { force: true });
  }
}

/** Writes the files beside those that they are to replace, and returns the moment as of which they are. */
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
    const about = verifyBackup(db, from, source);
    const hasInbox = isThere(db, DELIVERIES);
    // Made, if there is an inbox to be replaced, so that what came later has its place in it.
    if (hasInbox || existsSync(files.inbox)) {
      const inbox = await openInboxFile(restored.inbox, clock);
      if (hasInbox) copyDeliveries(db, inbox.db);
      await inbox.close();
    }
    // What was in these tables is not left in free pages.
    db.pragma('secure_delete = ON');
    db.exec(`DROP TABLE ${ABOUT}; DROP TABLE IF EXISTS ${DELIVERIES}; ${FREE_LEASES}`);
    return Date.parse(about.taken_at);
  } catch (error) {
    throw isDamaged(error) ? invalid(from, messageOf(error)) : error;
  } finally {
    db.close();
  }
}

const FREE_LEASES = `UPDATE _sync_leases SET expires_at = '1970-01-01 00:00:00'`;

/** Throws `ConfigError` for a file that is no backup, is not whole, of another source or from a newer content-sync. */
function verifyBackup(db: Database.Database, from: string, source: string): z.output<typeof aboutSchema> {
  if (!isThere(db, ABOUT)) throw invalid(from, 'it is no backup of content-sync');
  const { data: about } = aboutSchema.safeParse(db.prepare(`SELECT * FROM ${ABOUT}`).get());
  if (about === undefined) throw invalid(from, 'it does not say what it is');
  if (about.format > BACKUP_FORMAT) {
    throw new ConfigError('backup_newer', `${from} was written by a newer content-sync (${about.content_sync})`, {
      hint: 'restore it with that version',
    });
  }
  if (about.source !== source) {
    throw new ConfigError('backup_of_other', `${from} is a backup of the source ${about.source}, not of ${source}`, {
      hint: `name that source with --source, or the backup of ${source}`,
    });
  }
  const fault = damageOf(db);
  if (fault !== null) throw invalid(from, `it is damaged: ${fault}`);
  const done = db.prepare<[], string>('SELECT name FROM _sync_migrations').pluck().all();
  isUpToDate(from, new Set(done), WAREHOUSE_MIGRATIONS);
  return about;
}

function isThere(db: Database.Database, table: string): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined;
}

function invalid(shown: string, why: string, hint?: string): ConfigError {
  return new ConfigError('backup_invalid', `${shown}: ${why}`, {
    hint: hint ?? 'name a file that content-sync backup has written, and that was copied whole',
  });
}

function copyDeliveries(from: Database.Database, inbox: Database.Database): void {
  const rows = from.prepare(`SELECT * FROM ${DELIVERIES}`).raw();
  const names = rows.columns().map(({ name }) => `"${name}"`);
  const insert = inbox.prepare(
    `INSERT INTO _sync_deliveries (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
  );
  inbox.transaction(() => {
    for (const row of rows.iterate()) insert.run(row);
  })();
}

/** From here on it is done or not begun. */
async function replace(
  files: SourceFiles,
  restored: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<Omit<RestoreReport, 'takenAt'>> {
  const held: (Database.Database | null)[] = [];
  try {
    const warehouse = holdAlone(files.warehouse);
    held.push(warehouse);
    const inbox = holdAlone(files.inbox);
    held.push(inbox);
    const deliveries = await laterDeliveries(inbox, restored.inbox, request.clock);
    const forgotten = await carryForgotten(warehouse, restored, request, openWarehouse);
    request.signal.throwIfAborted();
    const replaced = [files.warehouse, files.inbox].filter((file) => existsSync(`${file}${RESTORED}`));
    decideRestore(files.inbox, replaced);
    finishRestore(files.inbox);
    return { deliveries, forgotten };
  } finally {
    for (const each of held.toReversed()) each?.close();
  }
}

/**
 * Verifies that no other connection has a database file open, and keeps it so until it is closed. Its log is folded back,
 * so that the file alone is all of it. Null if there is no file, or a damaged one, which is to be replaced for that very
 * reason. Throws `warehouse_in_use`.
 */
function holdAlone(file: string): Database.Database | null {
  if (!existsSync(file)) {
    putLogAside(file);
    return null;
  }
  const db = new Database(file, { timeout: 0 });
  try {
    // Only the one who has the file for himself can leave the log.
    if (db.pragma('journal_mode = DELETE', { simple: true }) !== 'delete') throw inUse(file);
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE');
    return db;
  } catch (error) {
    db.close();
    if (isBusy(error)) throw inUse(file, error);
    if (!isDamaged(error)) throw error;
    putLogAside(file);
    return null;
  }
}

/** A log would be taken for that of the file which is put beside it. */
function putLogAside(file: string): void {
  for (const end of ['-wal', '-journal']) if (existsSync(file + end)) renameSync(file + end, `${file}${end}.left`);
  rmSync(`${file}-shm`, { force: true });
}

function isDamaged(error: unknown): boolean {
  return error instanceof Error && 'code' in error && DAMAGED.test(String(error.code));
}

function inUse(file: string, cause?: unknown): SyncError {
  return new SyncError('warehouse_in_use', `${file} is in use by another program`, {
    recovery: 'stop',
    hint: 'stop content-sync (serve, sync) and whatever reads the file, then run the same command again',
    cause,
  });
}

/** Before it is decided: at no moment the records that were erased are there without a request to erase them. */
async function carryForgotten(
  db: Database.Database | null,
  restored: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<number | null> {
  const erased = db === null ? null : erasedIn(db);
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
    for (const file of Object.values(restored)) asOneFile(file);
  }
}

/** The erased records that a warehouse knows of; null if it is damaged. */
function erasedIn(db: Database.Database): ForgottenRow[] | null {
  try {
    // One of a version from before records could be erased has no such table.
    return isThere(db, '_sync_forgotten') ? db.prepare<[], ForgottenRow>('SELECT * FROM _sync_forgotten').all() : [];
  } catch (error) {
    if (isDamaged(error)) return null;
    throw error;
  }
}

/** Folds a log that is left back into its file, which can be moved then. */
function asOneFile(file: string): void {
  if (!existsSync(file)) return;
  const db = new Database(file);
  db.pragma('synchronous = FULL');
  db.pragma('journal_mode = DELETE');
  db.close();
}

/**
 * Has everything that was acknowledged after the backup wait in the restored inbox, also what was worked on since: the
 * restored warehouse is from before; what was erased since is erased there too. Returns how many deliveries that are;
 * null if the inbox that is replaced cannot be read.
 */
async function laterDeliveries(
  replaced: Database.Database | null,
  restored: string,
  clock: Clock,
): Promise<number | null> {
  if (!existsSync(restored)) return 0;
  const opened = await openInboxFile(restored, clock);
  try {
    opened.db.pragma('secure_delete = ON');
    return replaced === null ? null : opened.db.transaction(() => keepLater(replaced, opened.db))();
  } catch (error) {
    // Damaged, or of a version from long ago.
    if (error instanceof Error && 'code' in error && /^SQLITE_(?:CORRUPT|NOTADB|ERROR)/.test(String(error.code))) {
      return null;
    }
    throw error;
  } finally {
    await opened.close();
    asOneFile(restored);
  }
}

/** What a sender sent, with what only its later copy shows. */
interface Stored {
  seq: number;
  delivery_id: string;
  received_at: string;
  headers: string;
  body: Uint8Array;
  size: number;
  differs_from: string | null;
  events: number;
}

const THOSE = `SELECT seq, delivery_id, received_at, headers, body, size, differs_from, events FROM _sync_deliveries
  WHERE state <> 'ignored' ORDER BY seq`;
const ADD = `INSERT INTO _sync_deliveries (delivery_id, received_at, headers, body, size, differs_from)
  VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (delivery_id) DO NOTHING`;
/** Came again since, and was perhaps worked on then: the restored rows know nothing of it. */
const AGAIN = `UPDATE _sync_deliveries SET state = 'waiting', attempts = 0, due_at = NULL, finished_at = NULL, reason = NULL,
  events = ? WHERE delivery_id = ? AND events < ?`;
const ERASE = `UPDATE _sync_deliveries SET state = CASE state WHEN 'waiting' THEN 'done' ELSE state END, due_at = NULL,
  headers = '{}', body = x'', size = 0, record_id = NULL, differs_from = NULL, reason = 'it was erased after the backup',
  delivery_id = 'erased-' || seq WHERE seq = ? AND received_at = ?`;
/** The id that a forgetting leaves of a delivery. */
const ERASED = /^erased-\d+$/;

function keepLater(replaced: Database.Database, restored: Database.Database): number {
  const [add, again, erase] = [restored.prepare(ADD), restored.prepare(AGAIN), restored.prepare(ERASE)];
  let kept = 0;
  for (const one of replaced.prepare<[], Stored>(THOSE).iterate()) {
    const { seq, delivery_id, received_at, headers, body, size, differs_from, events } = one;
    if (size === 0 && ERASED.test(delivery_id)) erase.run(seq, received_at);
    else {
      kept += add.run(delivery_id, received_at, headers, body, size, differs_from).changes;
      kept += again.run(events, delivery_id, events).changes;
    }
  }
  return kept;
}
