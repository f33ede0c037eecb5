import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import type { BackupReport, BackupRequest } from '../../backup.ts';
import { databaseError } from '../connection/errors.ts';
import { finishRestore, syncFolder } from '../connection/finish-restore.ts';
import { ArchiveWriter, bytesIn } from './archive.ts';
import { aboutText, isBackup, MEMBERS } from './contents.ts';
import { refuseDamaged } from './refuse-damaged.ts';

/** The files of one source. */
export interface SourceFiles {
  warehouse: string;
  inbox: string;
}

/** Somebody may just be starting, who holds a file for a moment. */
const BUSY_MS = 5_000;
/** Pages that are copied before the signal is looked at. */
const PAGES_AT_ONCE = 1_000;

/**
 * Writes warehouse and inbox as of one moment into one file, whatever goes on in them. Throws `ConfigError`, and leaves
 * a file that was there as it was, if that cannot be done.
 */
export async function backUp(files: SourceFiles, request: BackupRequest): Promise<BackupReport> {
  const { to, clock } = request;
  finishRestore(files.inbox);
  refuseMissing(files.warehouse);
  await refusePlace(to, files);
  removeLeftovers(to);
  const part = partOf(to);
  try {
    const takenAt = clock.now();
    const copies = await copyPair(files, part, request.signal);
    const bytes = await writeArchive(part, copies, { ...request, takenAt });
    request.signal.throwIfAborted();
    renameSync(part, to);
    syncFolder(to);
    return { takenAt, bytes, hasInbox: copies.length > 1 };
  } catch (error) {
    throw databaseError(error, to);
  } finally {
    for (const end of ENDS) rmSync(`${part}${end}`, { force: true });
  }
}

/** Of the parts of a backup under way, each with its own journal. */
const ENDS = ['', '-warehouse', '-warehouse-journal', '-inbox', '-inbox-journal'] as const;
const PART = /\.(\d+)\.part(?:-(?:warehouse|inbox))?(?:-journal)?$/;

function partOf(to: string): string {
  return `${to}.${process.pid}.part`;
}

/** What a backup to the same file has left that was killed. */
function removeLeftovers(to: string): void {
  const folder = path.dirname(to);
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const pid = name.startsWith(`${path.basename(to)}.`) ? PART.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(path.join(folder, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return pid !== process.pid && process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function refuseMissing(warehouse: string): void {
  if (existsSync(warehouse)) return;
  throw new ConfigError('warehouse_missing', `${warehouse}: there is no warehouse yet`, {
    hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}

/** A backup takes the place of a backup, and of nothing else. */
async function refusePlace(to: string, files: SourceFiles): Promise<void> {
  const folder = path.dirname(to);
  if (!existsSync(folder)) throw refusedPlace(to, `there is no folder ${folder}`, 'make it');
  const isOwn = [files.warehouse, files.inbox].some((file) => path.resolve(file) === path.resolve(to));
  if (!isOwn && !existsSync(to)) return;
  await using file = await open(to).catch((error: unknown) => {
    throw refusedPlace(to, messageOf(error), 'name another file');
  });
  if (isOwn || !(await isBackup(file))) throw refusedPlace(to, 'it is there, and is no backup', 'name another file');
}

function refusedPlace(to: string, why: string, hint: string): ConfigError {
  return new ConfigError('backup_refused', `${to}: ${why}`, { hint });
}

interface Copy {
  name: string;
  path: string;
}

/**
 * Copies both files as of one moment, and proves that they are whole. The inbox's moment comes first: whatever was done
 * by then stands in the warehouse, and what was not done waits, and is at most read once more. The other way round a
 * delivery would be done whose row is missing.
 */
async function copyPair(files: SourceFiles, part: string, signal: AbortSignal): Promise<Copy[]> {
  const inbox = existsSync(files.inbox) ? freeze(files.inbox) : null;
  try {
    const warehouse = freeze(files.warehouse);
    try {
      const copies = [await copyOf(warehouse, MEMBERS.warehouse, `${part}-warehouse`, signal)];
      if (inbox !== null) copies.push(await copyOf(inbox, MEMBERS.inbox, `${part}-inbox`, signal));
      return copies;
    } finally {
      warehouse.close();
    }
  } finally {
    inbox?.close();
  }
}

/** A connection that sees the file as it is now, whatever is written to it. */
function freeze(file: string): Database.Database {
  const db = new Database(file, { timeout: BUSY_MS });
  try {
    db.pragma('query_only = ON');
    db.exec('BEGIN');
    if (db.prepare("SELECT 1 FROM sqlite_schema WHERE name = '_sync_migrations'").get() === undefined)
      refuseForeign(file);
    return db;
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
}

function refuseForeign(file: string): never {
  throw new ConfigError('warehouse_missing', `${file} holds no warehouse of content-sync`, {
    hint: 'check `warehouse` in the config',
  });
}

async function copyOf(db: Database.Database, name: string, to: string, signal: AbortSignal): Promise<Copy> {
  await db.backup(to, {
    progress: () => {
      signal.throwIfAborted();
      return PAGES_AT_ONCE;
    },
  });
  const copy = new Database(to);
  try {
    // One file, which can be read without a log beside it.
    copy.pragma('journal_mode = DELETE');
    refuseDamaged(copy, db.name);
  } finally {
    copy.close();
  }
  return { name, path: to };
}

async function writeArchive(
  part: string,
  copies: readonly Copy[],
  { source, version, takenAt, signal }: BackupRequest & { takenAt: number },
): Promise<number> {
  const about = Buffer.from(aboutText({ source, taken_at: new Date(takenAt).toISOString(), content_sync: version }));
  await using file = await open(part, 'w', 0o600);
  const archive = new ArchiveWriter(file, takenAt);
  const sums = [[MEMBERS.about, await archive.add(MEMBERS.about, about.length, [about])]];
  for (const copy of copies) {
    signal.throwIfAborted();
    const { size } = await sizeOf(copy.path);
    sums.push([copy.name, await archive.add(copy.name, size, bytesIn(copy.path))]);
    rmSync(copy.path);
  }
  const text = Buffer.from(sums.map(([name, sum]) => `${sum}  ${name}\n`).join(''));
  await archive.add(MEMBERS.sums, text.length, [text]);
  return await archive.finish();
}

async function sizeOf(file: string): Promise<{ size: number }> {
  await using handle = await open(file);
  return await handle.stat();
}
