import { renameSync, rmSync, statSync, type BigIntStats } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { SyncError } from '../../../model/errors.ts';

/** The log belongs to the database: the latest commits are only in it. */
const [LOG, INDEX] = ['-wal', '-shm'] as const;

/**
 * An open database file and its path. SQLite would keep writing to a file that was moved or deleted, so every use
 * verifies before and after that the path still leads to the open file.
 */
export interface NamedFile {
  /** Call it once the log exists: it remembers the files at the paths. Throws if they may not be the open ones. */
  opened(): void;
  /** True if the paths still lead to the open files. */
  isOwn(): boolean;
  /** Runs work between two checks. Throws `warehouse_gone` if the path leads elsewhere, also just after the work. */
  whileNamed<T>(work: () => T | Promise<T>): Promise<T>;
  /** Closes the file without leaving its log beside another file that has taken its path. */
  close(db: Database, close: () => Promise<void>): Promise<void>;
}

export function namedFile(file: string): NamedFile {
  const before = identityOf(file);
  let own: ReadonlyMap<string, string> | null = null;

  /** True also for files that did not exist when the database was opened. */
  const isOwn = (ends: readonly string[] = ['', LOG, INDEX]): boolean =>
    ends.every((end) => own?.get(end) === undefined || own.get(end) === identityOf(file + end));

  function check(): void {
    if (!isOwn(['', LOG])) throw pathLost(file);
  }

  return {
    opened: () => {
      const found = ['', LOG, INDEX].map((end) => [end, identityOf(file + end)] as const);
      own = new Map(found.flatMap(([end, identity]) => (identity === null ? [] : [[end, identity]])));
      // Replaced since it was opened: either file may be the open one.
      if (!own.has('') || (before !== null && before !== own.get(''))) throw pathLost(file);
    },
    isOwn: () => isOwn(),
    whileNamed: async (work) => {
      check();
      const result = await work();
      check();
      return result;
    },
    close: async (db, close) => {
      if (isOwn() || statOf(file) === null) return close();
      const isComplete = checkpointAll(db);
      await close();
      if (own?.get(LOG) === identityOf(file + LOG)) removeLog(file + LOG, isComplete);
      if (own?.get(INDEX) === identityOf(file + INDEX)) rmSync(file + INDEX, { force: true });
    },
  };
}

function pathLost(file: string): SyncError {
  const isGone = statOf(file) === null;
  const what = isGone ? 'is no longer there, or may not be read' : 'or its log is no longer the file that was opened';
  const hint = isGone
    ? 'put it back, or restart to begin a new copy'
    : 'restart `serve`, or run the same command again, to go on with the file that is there now';
  return new SyncError('warehouse_gone', `${file} ${what}`, { recovery: 'stop', hint });
}

/** Copies the log into its file. Returns false if a program that reads the log prevents that. */
function checkpointAll(db: Database): boolean {
  try {
    return db.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0;
  } catch {
    return false;
  }
}

/** Retains a log with commits that its file lacks under another name, for the operator who moved the file. */
function removeLog(log: string, isCopied: boolean): void {
  if (isCopied) rmSync(log, { force: true });
  else renameSync(log, `${log}.left`);
}

function identityOf(path: string): string | null {
  const stat = statOf(path);
  return stat === null ? null : `${stat.dev}:${stat.ino}`;
}

/** Null if there is no file, or this user may not look at it. Inode numbers may be larger than a double holds. */
function statOf(path: string): BigIntStats | null {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false }) ?? null;
  } catch {
    return null;
  }
}
