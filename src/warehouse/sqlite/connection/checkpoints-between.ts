import { statfsSync } from 'node:fs';
import path from 'node:path';
import type { Database } from 'better-sqlite3';
import { PageThread } from '../../page-thread/page-thread.ts';

/** 4 MB, which is SQLite's own measure for pages of the usual size. */
const MANY_PAGES = 256;
/** 32 MB; while the thread is at work, it grows further. */
const MOST_PAGES = 2_048;
/** With less free on its volume, in bytes, the WAL stays as short as it can. */
const AMPLE_ROOM = 1_000_000_000;

/** What copies the WAL back into the database while this thread's connection writes to it. */
export interface CheckpointsBetween {
  /** To be called between two transactions. Never throws: a checkpoint that fails is tried again at the next one. */
  look: () => void;
  /** To be called when the last transaction is done. This thread lives until only its own connection is open. */
  end: () => void;
}

/**
 * The connection no longer makes checkpoints by itself: it would do so as the last step of a commit, and wait there for
 * the disk; who asked for the commit would wait too, although all of it is in the WAL.
 *
 * A thread beside makes them, while this one goes on writing. But SQLite begins a WAL anew only at a moment when all of
 * it is copied, which may never come while somebody writes: once it is large, this thread copies the rest, which is
 * little, and writes nothing meanwhile. Where the volume has little room a large WAL would take that of the rows: there
 * this thread makes each of them. `roomOf` returns the bytes free on the volume of a file.
 */
export function checkpointsBetween(db: Database, roomOf = freeBytes): CheckpointsBetween {
  db.pragma('wal_autocheckpoint = 0');
  // Tells of the WAL and copies nothing.
  const log = db.prepare<[], { log: number }>('PRAGMA wal_checkpoint(NOOP)');
  const script = new URL('./checkpoint-thread.ts', import.meta.url);
  let beside: PageThread<null, null> | null = null;
  let isAtWork = false;

  /** False if there is no thread any more. */
  const copyBeside = (): boolean => {
    beside ??= new PageThread({ script, data: db.name, name: 'checkpoints' });
    if (beside.isGone) return false;
    if (isAtWork) return true;
    isAtWork = true;
    const isDone = (): void => void (isAtWork = false);
    beside.ask(null).then(isDone, isDone);
    return true;
  };
  return {
    look: () => {
      try {
        const pages = db.open ? (log.get()?.log ?? 0) : 0;
        if (pages < MANY_PAGES) return;
        const mayGrow = pages < MOST_PAGES && roomOf(db.name) >= AMPLE_ROOM;
        if (!mayGrow || !copyBeside()) db.pragma('wal_checkpoint(PASSIVE)');
      } catch {
        // As SQLite does with errors of its own checkpoints: the WAL holds everything.
      }
    },
    end: () => void beside?.close(),
  };
}

function freeBytes(file: string): number {
  const { bavail, bsize } = statfsSync(path.dirname(file));
  return bavail * bsize;
}
