import { once } from 'node:events';
import { statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Database } from 'better-sqlite3';
import { messageOf, SyncError } from '../../../model/errors.ts';
import type { Upkeep } from '../../warehouse.ts';

/** SQLite's own checkpoints, after a write that leaves so many pages, keep the WAL at about this size. */
const LARGE_BYTES = 15 * 1_048_576;
const OWN_CHECKPOINT_PAGES = 1_000;

/**
 * Returns what copies a WAL that has become large back into the database and cuts it off, in a thread of its own. That
 * never throws: what keeps it from that (a reader that holds its transaction open, an error of the disk) does so until
 * the next time, and the size tells.
 *
 * SQLite checkpoints only when somebody writes, in the thread that writes, and cuts the WAL off only when nobody reads
 * it: after a reader that held its transaction open for long, the next write would copy gigabytes at once, or, if
 * none comes, they would stay. Somebody has to come by now and then.
 */
export function walUpkeep(db: Database): () => Promise<Upkeep> {
  let running: Promise<void> | null = null;
  const copy = async (): Promise<void> => {
    checkpointAfter(db, 0);
    const isCopied = await checkpointAside(db.name);
    // A WAL that is still large is the thread's next time too; without a thread, SQLite has to do it itself.
    if (!isCopied || walBytes(db.name) <= LARGE_BYTES) checkpointAfter(db, OWN_CHECKPOINT_PAGES);
  };
  return async () => {
    if (walBytes(db.name) > LARGE_BYTES) running ??= copy().finally(() => (running = null));
    await running;
    return { walBytes: walBytes(db.name) };
  };
}

/** SQLite removes the WAL when the last connection closes, and makes none before the first write. */
function walBytes(file: string): number {
  return statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}

/** After how many pages this connection checkpoints by itself; 0 for never. */
function checkpointAfter(db: Database, pages: number): void {
  if (db.open) db.pragma(`wal_autocheckpoint = ${pages}`);
}

/** Copying back hundreds of megabytes takes about a second: too long for the thread that answers. False if it failed. */
async function checkpointAside(file: string): Promise<boolean> {
  try {
    await once(new Worker(workerFile(), { workerData: file }), 'exit');
    return true;
  } catch {
    return false;
  }
}

/** Beside this file, and of its kind: TypeScript in the sources, JavaScript in a build. */
function workerFile(): URL {
  const source = new URL('./wal-upkeep-thread.ts', import.meta.url);
  return new URL(source.href.replace(/\.ts$/, path.extname(import.meta.url)));
}

/**
 * Has the write-ahead log of a database on the disk, with all that was committed before: a warehouse commits without
 * waiting for that. What is no longer in the log is in the database itself, where SQLite has synced it before it began
 * the log anew. Throws `SyncError`.
 */
export async function syncLog(file: string): Promise<void> {
  try {
    await using log = await open(`${file}-wal`, 'r+');
    await log.datasync();
  } catch (error) {
    // Nothing was written yet, or the last one to close it has copied everything back.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw new SyncError('warehouse_io', `${file}-wal: ${messageOf(error)}`, {
      recovery: 'stop',
      hint: 'the disk does not take what was written: check the volume of the warehouse',
      cause: error,
    });
  }
}
