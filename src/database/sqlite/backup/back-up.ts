import {
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { z } from 'zod';
import { ConfigError } from '../../../model/errors.ts';
import type { BackupReport, BackupRequest } from '../../database.ts';
import { isOtherRunning } from '../../state/leases.ts';
import { databaseError, hasErrorCode } from '../connection/errors.ts';
import { stepsDone } from '../connection/open-file.ts';

/** The files of one source. */
export interface SourceFiles {
  warehouse: string;
  inbox: string;
}

/** A process that is just starting holds the lock briefly. */
const LOCK_TIMEOUT_MS = 5_000;
const PAGES_PER_STEP = 1_000;

/** Increment it if older versions cannot read a new backup. */
export const BACKUP_FORMAT = 2;

/** A backup is the warehouse file with two more tables: its origin, and the deliveries of the inbox, if there is one. */
export const ORIGIN_TABLE = '_sync_backup';
export const DELIVERIES_TABLE = '_sync_backup_deliveries';

/**
 * Writes warehouse and inbox as of one time into one file, while other processes write to them. Throws `ConfigError`;
 * then a file at the path is unchanged.
 */
export async function backUp(files: SourceFiles, request: BackupRequest): Promise<BackupReport> {
  const { to, clock, signal } = request;
  finishRestore(files.inbox);
  if (!existsSync(files.warehouse)) {
    throw new ConfigError('warehouse_missing', `${files.warehouse}: there is no warehouse yet`, {
      hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
    });
  }
  refuseTarget(to, files);
  removeLeftovers(to);
  const part = `${to}.${process.pid}.part`;
  try {
    const takenAt = clock.now();
    // The inbox is frozen first: the warehouse then has the rows of all its finished deliveries.
    using inbox = existsSync(files.inbox) ? freeze(files.inbox) : null;
    await copyWarehouse(files.warehouse, part, signal);
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

/** A backup only replaces a backup. */
function refuseTarget(to: string, files: SourceFiles): void {
  const refused = (why: string, hint: string): ConfigError =>
    new ConfigError('backup_refused', `${to}: ${why}`, { hint });
  const folder = path.dirname(to);
  if (!existsSync(folder)) throw refused(`there is no folder ${folder}`, 'make it');
  const isOwn = [files.warehouse, files.inbox].some((file) => path.resolve(file) === path.resolve(to));
  if (isOwn || !isReplaceable(to)) throw refused('it is there, and is no backup', 'name another file');
}

/** True if there is no file, an empty one, or a backup. */
function isReplaceable(file: string): boolean {
  if (!existsSync(file)) return true;
  if (!statSync(file).isFile()) return false;
  if (statSync(file).size === 0) return true;
  try {
    const db = new Database(file, { readonly: true });
    try {
      return db.prepare(`SELECT 1 FROM ${ORIGIN_TABLE}`).get() !== undefined;
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

/** Opens a connection with a snapshot of the file as it is now. */
function freeze(file: string): { db: Database.Database } & Disposable {
  const db = new Database(file, { timeout: LOCK_TIMEOUT_MS });
  try {
    db.pragma('query_only = ON');
    db.exec('BEGIN');
    if (stepsDone(db) === null) {
      throw new ConfigError('warehouse_missing', `${file} holds no warehouse of content-sync`, {
        hint: 'check `warehouse` in the config',
      });
    }
    return { db, [Symbol.dispose]: () => void db.close() };
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
}

async function copyWarehouse(file: string, to: string, signal: AbortSignal): Promise<void> {
  using warehouse = freeze(file);
  const progress = (): number => {
    signal.throwIfAborted();
    return PAGES_PER_STEP;
  };
  await warehouse.db.backup(to, { progress });
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
export function copyRows(
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
export function findDamage(db: Database.Database): string | null {
  const found = db.prepare<[], string>('PRAGMA integrity_check(1)').pluck().all();
  return found.find((line) => line !== 'ok') ?? null;
}

/** The end of the name of a file that is to replace another one. */
export const RESTORED = '.restored';

/** Paths of files that are to be replaced. */
const decisionSchema = z.strictObject({ replace: z.array(z.string()) });

/** Once this file exists, the restore is completed. It is next to the inbox, whose path both files of a source know. */
function decisionFile(inbox: string): string {
  return `${inbox}.restore`;
}

/** Decides that the restored files replace the others: all of them or, before this is on disk, none. */
export function decideRestore(inbox: string, files: readonly string[]): void {
  const decision = decisionFile(inbox);
  writeFileSync(`${decision}.next`, JSON.stringify({ replace: files }), { mode: 0o600, flush: true });
  renameSync(`${decision}.next`, decision);
  syncFolder(decision);
}

/**
 * Completes a restore that was decided. It must run before the source's files are opened. A process that was killed, or
 * a concurrent one, may have done any of the steps.
 */
export function finishRestore(inbox: string): void {
  const decision = decisionFile(inbox);
  const files = readDecision(decision);
  if (files === null) return;
  for (const file of files) {
    try {
      renameSync(`${file}${RESTORED}`, file);
    } catch (error) {
      if (!hasErrorCode(error, /^ENOENT$/)) throw error;
    }
    syncFolder(file);
  }
  rmSync(decision, { force: true });
  syncFolder(decision);
}

function readDecision(decision: string): readonly string[] | null {
  if (!existsSync(decision)) return null;
  try {
    return decisionSchema.parse(JSON.parse(readFileSync(decision, 'utf8'))).replace;
  } catch (error) {
    // Another process has completed it since.
    if (!existsSync(decision)) return null;
    throw error;
  }
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
