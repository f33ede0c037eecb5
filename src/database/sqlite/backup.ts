// `warehouse backup` and `warehouse restore`: warehouse and inbox as one SQLite file.
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, messageOf, SyncError } from '../../model/errors.ts';
import type { BackupReport, BackupRequest, RestoreReport, RestoreRequest } from '../database.ts';
import type { Inbox } from '../inbox.ts';
import { isUpToDate, missingWarehouse, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { ForgottenRow } from '../own-tables.ts';
import { isOtherRunning } from '../state/leases.ts';
import type { Warehouse } from '../warehouse.ts';
import { databaseError, hasErrorCode, isBusy } from './connection/errors.ts';
import { stepsDone } from './connection/open-file.ts';
import { openInbox, openInboxFile } from './inbox/open-inbox.ts';

/** The files of one source. */
interface SourceFiles {
  warehouse: string;
  inbox: string;
}

/** A process that is just starting holds the lock briefly. */
const LOCK_TIMEOUT_MS = 5_000;
const PAGES_PER_STEP = 1_000;

/** Increment it if older versions cannot read a new backup. */
const BACKUP_FORMAT = 2;

/** A backup is the warehouse file with two more tables: its origin, and the deliveries of the inbox, if there is one. */
const ORIGIN_TABLE = '_sync_backup';
const DELIVERIES_TABLE = '_sync_backup_deliveries';

/**
 * Writes warehouse and inbox as of one time into one file, while other processes write to them. Throws `ConfigError`;
 * then a file at the path is unchanged.
 */
export async function backUp(files: SourceFiles, request: BackupRequest): Promise<BackupReport> {
  const { to, clock, signal } = request;
  refuseTarget(to, files);
  removeLeftovers(to);
  const part = `${to}.${process.pid}.part`;
  try {
    const takenAt = clock.now();
    // The inbox is frozen first: the warehouse then has the rows of all its finished deliveries.
    using inbox = existsSync(files.inbox) ? freeze(files.inbox) : null;
    using warehouse = freeze(files.warehouse);
    const progress = (): number => {
      signal.throwIfAborted();
      return PAGES_PER_STEP;
    };
    await warehouse.db.backup(part, { progress });
    finishCopy(part, inbox?.db ?? null, { ...request, takenAt });
    signal.throwIfAborted();
    renameSync(part, to);
    syncFolder(to);
    return { takenAt, bytes: statSync(to).size, hasInbox: inbox !== null };
  } catch (error) {
    throw databaseError(error, to);
  } finally {
    for (const end of ['', '-journal']) rmSync(`${part}${end}`, { force: true });
  }
}

/** Removes the partial files of killed backups to the same path. */
function removeLeftovers(to: string): void {
  const folder = path.dirname(to);
  for (const name of readdirSync(folder)) {
    const pid = name.startsWith(`${path.basename(to)}.`) ? /\.(\d+)\.part(?:-journal)?$/.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isOtherRunning(Number(pid))) rmSync(path.join(folder, name), { force: true });
  }
}

function refuseTarget(to: string, files: SourceFiles): void {
  const refused = (why: string, hint: string): ConfigError =>
    new ConfigError('backup_refused', `${to}: ${why}`, { hint });
  const folder = path.dirname(to);
  if (!existsSync(folder)) throw refused(`there is no folder ${folder}`, 'create the folder first');
  const isOwn = Object.values(files).some((file) => path.resolve(file) === path.resolve(to));
  if (isOwn || (existsSync(to) && !isBackup(to))) {
    throw refused('a file with this name exists and is not a backup', 'name another file');
  }
}

function isBackup(file: string): boolean {
  try {
    const db = new Database(file, { readonly: true });
    try {
      return hasTable(db, ORIGIN_TABLE);
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

function hasTable(db: Database.Database, table: string): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined;
}

/** Opens a connection with a snapshot of the file as it is now. */
function freeze(file: string): { db: Database.Database } & Disposable {
  if (!existsSync(file)) throw missingWarehouse(file);
  const db = new Database(file, { timeout: LOCK_TIMEOUT_MS });
  try {
    db.pragma('query_only = ON');
    db.exec('BEGIN');
    if (stepsDone(db) === null) throw missingWarehouse(file);
    return { db, [Symbol.dispose]: () => void db.close() };
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
}

/** Verifies the copy, and adds the tables of a backup. */
function finishCopy(
  part: string,
  inbox: Database.Database | null,
  { source, version, takenAt, signal }: BackupRequest & { takenAt: number },
): void {
  const copy = new Database(part);
  try {
    // One file that can be read without a log.
    copy.pragma('journal_mode = DELETE');
    copy.pragma('synchronous = FULL');
    const damage = findDamage(copy);
    if (damage !== null) {
      throw new ConfigError('warehouse_corrupt', `the database is damaged: ${damage}`, {
        hint: 'take a backup from before, or move the file away and copy everything again: content-sync backfill',
      });
    }
    copy.transaction(() => {
      copy.exec(`CREATE TABLE ${ORIGIN_TABLE} ("format" INTEGER, "source" TEXT, "taken_at" TEXT, "content_sync" TEXT)`);
      const origin = [BACKUP_FORMAT, source, new Date(takenAt).toISOString(), version];
      copy.prepare(`INSERT INTO ${ORIGIN_TABLE} VALUES (?, ?, ?, ?)`).run(origin);
      if (inbox !== null) {
        const names = inbox.prepare('SELECT * FROM _sync_deliveries').columns();
        copy.exec(`CREATE TABLE ${DELIVERIES_TABLE} (${names.map(({ name }) => `"${name}"`).join(', ')})`);
        copyRows(inbox, '_sync_deliveries', copy, DELIVERIES_TABLE, signal);
      }
    })();
  } finally {
    copy.close();
  }
}

/** Copies rows into the columns of the same names, within the caller's transaction. */
function copyRows(
  from: Database.Database,
  source: string,
  to: Database.Database,
  target: string,
  signal: AbortSignal,
): void {
  const rows = from.prepare(`SELECT * FROM ${source} ORDER BY "seq"`).raw();
  const names = rows.columns().map(({ name }) => `"${name}"`);
  const insert = to.prepare(`INSERT INTO ${target} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`);
  for (const row of rows.iterate()) {
    signal.throwIfAborted();
    insert.run(row);
  }
}

/** Returns the first inconsistency that SQLite finds; null if there is none. */
function findDamage(db: Database.Database): string | null {
  const found = db.prepare<[], string>('PRAGMA integrity_check(1)').pluck().all();
  return found.find((line) => line !== 'ok') ?? null;
}

/** Makes the names in a file's folder durable, on systems that support it. */
function syncFolder(file: string): void {
  try {
    const folder = openSync(path.dirname(file), 'r');
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  } catch {
    // Windows cannot open folders.
  }
}

type OpenWarehouse = (file: string, clock: Clock) => Promise<Warehouse>;

const originSchema = z.object({
  format: z.int().positive(),
  source: z.string(),
  taken_at: z.iso.datetime(),
  content_sync: z.string(),
});

const DAMAGED = /^SQLITE_(?:CORRUPT|NOTADB)/;

/** Suffix of a restored file until it replaces the old one. */
export const RESTORED = '.restored';

/**
 * Replaces the warehouse by that of a backup. The inbox stays, and deliveries that were processed after the backup wait
 * in it again; if it is missing or damaged, it is restored too. Records that were erased after the backup are requested
 * to be erased again. If the process is killed, the old warehouse is still there, or the restore is complete. Throws
 * `ConfigError` or `warehouse_in_use`; then nothing was changed.
 */
export async function restore(
  files: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<RestoreReport> {
  const restored = { warehouse: `${files.warehouse}${RESTORED}`, inbox: `${files.inbox}${RESTORED}` };
  using locked = new DisposableStack();
  try {
    removeFiles(restored);
    mkdirSync(path.dirname(files.warehouse), { recursive: true });
    // 1. Unpack the backup next to the old files.
    const { takenAt, processed } = await unpack(files, restored, request);
    // 2. Lock the old files.
    const warehouse = lockExclusively(files.warehouse, locked);
    const inbox = lockExclusively(files.inbox, locked);
    // 3. Make deliveries wait again in the old inbox, or use the inbox of the backup.
    // Null if the old inbox is missing or damaged, else how many deliveries wait again.
    const deliveries = inbox === null ? null : processAgain(inbox, processed);
    if (deliveries !== null) removeFiles({ inbox: restored.inbox });
    // 4. Carry over the erasures.
    const forgotten = await carryForgotten(warehouse, restored, request, openWarehouse);
    request.signal.throwIfAborted();
    const hasNoInbox = inbox === null && !existsSync(restored.inbox);
    // 5. Commit the old inbox, and rename the restored files.
    if (deliveries !== null) inbox?.exec('COMMIT');
    for (const part of ['inbox', 'warehouse'] as const) {
      if (existsSync(restored[part])) renameSync(restored[part], files[part]);
      syncFolder(files[part]);
    }
    // Deliveries: 0 without any inbox; null if the restored inbox replaced a missing or damaged one.
    return { takenAt, forgotten, deliveries: hasNoInbox ? 0 : deliveries };
  } catch (error) {
    throw databaseError(error, files.warehouse);
  } finally {
    removeFiles(restored);
  }
}

function removeFiles(restored: Partial<SourceFiles>): void {
  for (const file of Object.values(restored)) {
    for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${end}`, { force: true });
  }
}

/**
 * Writes the files of a backup next to those that they replace. Returns the time of the backup, and the deliveries that
 * had been processed by then, as JSON.
 */
async function unpack(
  files: SourceFiles,
  restored: SourceFiles,
  { from, source, clock, signal }: RestoreRequest,
): Promise<{ takenAt: number; processed: string }> {
  await copyFile(from, restored.warehouse).catch((error: unknown) => {
    throw invalidBackup(
      from,
      `it cannot be read: ${messageOf(error)}`,
      'check the path, and that this user may read it',
    );
  });
  signal.throwIfAborted();
  const db = new Database(restored.warehouse);
  try {
    db.pragma('synchronous = FULL');
    const origin = verifyBackup(db, from, source);
    const hasInbox = hasTable(db, DELIVERIES_TABLE);
    if (hasInbox || existsSync(files.inbox)) {
      const inbox = await openInboxFile(restored.inbox, clock);
      const copy = (): void => copyRows(db, DELIVERIES_TABLE, inbox.db, '_sync_deliveries', signal);
      if (hasInbox) inbox.db.transaction(copy)();
      await inbox.close();
    }
    const processed = hasInbox ? (db.prepare<[], string>(DELIVERIES_DONE_AT_BACKUP).pluck().get() ?? '[]') : '[]';
    // Free pages keep nothing of the dropped tables.
    db.pragma('secure_delete = ON');
    db.exec(`DROP TABLE ${ORIGIN_TABLE}; DROP TABLE IF EXISTS ${DELIVERIES_TABLE}; ${FREE_LEASES}`);
    return { takenAt: Date.parse(origin.taken_at), processed };
  } catch (error) {
    throw hasErrorCode(error, DAMAGED) ? invalidBackup(from, messageOf(error)) : error;
  } finally {
    db.close();
  }
}

const FREE_LEASES = `UPDATE _sync_leases SET expires_at = '1970-01-01 00:00:00'`;

const DELIVERIES_DONE_AT_BACKUP = `SELECT json_group_array(json_array(delivery_id, events)) FROM ${DELIVERIES_TABLE} WHERE state <> 'waiting'`;
/**
 * Makes deliveries wait again that were processed after the backup: the restored warehouse lacks their changes. Erased
 * deliveries have the size 0.
 */
const PROCESS_AGAIN = `UPDATE _sync_deliveries
  SET state = 'waiting', attempts = 0, due_at = NULL, finished_at = NULL, reason = NULL
  WHERE state NOT IN ('waiting', 'ignored') AND size > 0 AND (delivery_id, events) NOT IN
    (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))`;

/** Returns the number of deliveries that wait again; null if the inbox cannot be read. */
function processAgain(inbox: Database.Database, processed: string): number | null {
  try {
    return inbox.prepare<[string]>(PROCESS_AGAIN).run(processed).changes;
  } catch (error) {
    // Damaged, or written by a version with other columns.
    if (!hasErrorCode(error, /^SQLITE_(?:CORRUPT|NOTADB|ERROR)/)) throw error;
    // Its journal must not be left next to the file that replaces it.
    if (inbox.inTransaction) inbox.exec('ROLLBACK');
    return null;
  }
}

/** Throws `ConfigError` if the file is no complete backup of the source that this version can read. */
function verifyBackup(db: Database.Database, from: string, source: string): z.output<typeof originSchema> {
  if (!hasTable(db, ORIGIN_TABLE)) throw invalidBackup(from, 'it is no backup of content-sync');
  const { data: origin } = originSchema.safeParse(db.prepare(`SELECT * FROM ${ORIGIN_TABLE}`).get());
  if (origin === undefined) throw invalidBackup(from, 'its origin record is missing or damaged');
  if (origin.format > BACKUP_FORMAT) {
    const version = origin.content_sync;
    throw invalidBackup(from, `it was written by a newer content-sync (${version})`, 'restore it with that version');
  }
  if (origin.source !== source) {
    const hint = `name that source with --source, or the backup of ${source}`;
    throw invalidBackup(from, `it is a backup of the source ${origin.source}, not of ${source}`, hint);
  }
  const damage = findDamage(db);
  if (damage !== null) throw invalidBackup(from, `it is damaged: ${damage}`);
  isUpToDate(from, new Set(stepsDone(db)), WAREHOUSE_MIGRATIONS);
  return origin;
}

function invalidBackup(
  from: string,
  why: string,
  hint = 'name a file that content-sync backup has written, and that was copied completely',
): ConfigError {
  return new ConfigError('backup_invalid', `${from}: ${why}`, { hint });
}

/**
 * Verifies that no other connection has the file open, and prevents others until it is closed. Its log is copied into
 * it. Returns null if there is no file, or a damaged one, which is to be replaced. Throws `warehouse_in_use`.
 */
function lockExclusively(file: string, locked: DisposableStack): Database.Database | null {
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
    return locked.adopt(db, () => void db.close());
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

/**
 * Runs before the files are replaced, so that erased records are never restored without the request to erase them again.
 * Returns the number of restored records to erase again; null if the old warehouse is missing or damaged.
 */
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
