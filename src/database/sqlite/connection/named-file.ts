import { renameSync, rmSync, statSync, type BigIntStats } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { SyncError } from '../../../model/errors.ts';

/** The log belongs to the database: what was committed last stands in it alone. */
const [LOG, INDEX] = ['-wal', '-shm'] as const;

/**
 * A database file that is open, and its name. SQLite goes on writing into a file that was moved away, replaced or
 * removed, where nobody finds it again; so what is done with it asks here before and after.
 */
export interface NamedFile {
  /** To be called once the log is there: what has the names now is what is open. Throws if that is not certain. */
  opened(): void;
  /** True if it still has its names. */
  isOwn(): boolean;
  /** Does the work between two looks. Throws `warehouse_gone` if the name is not the file's own, also just after it. */
  whileNamed<T>(work: () => T | Promise<T>): Promise<T>;
  /** Closes it so that a file which has taken its name is not mistaken for it: its log must not lie beside that one. */
  close(db: Database, close: () => Promise<void>): Promise<void>;
}

export function namedFile(file: string): NamedFile {
  const before = identityOf(file);
  let own: ReadonlyMap<string, string> | null = null;

  /** True for what was not there when it was opened, too. */
  const isOwn = (ends: readonly string[] = ['', LOG, INDEX]): boolean =>
    ends.every((end) => own?.get(end) === undefined || own.get(end) === identityOf(file + end));

  function check(): void {
    if (!isOwn(['', LOG])) throw nameLost(file);
  }

  return {
    opened: () => {
      const found = ['', LOG, INDEX].map((end) => [end, identityOf(file + end)] as const);
      own = new Map(found.flatMap(([end, identity]) => (identity === null ? [] : [[end, identity]])));
      // Swapped between its opening and now: nobody knows which of both is open.
      if (!own.has('') || (before !== null && before !== own.get(''))) throw nameLost(file);
    },
    isOwn: () => isOwn(),
    whileNamed: async (work) => {
      check();
      const done = await work();
      check();
      return done;
    },
    close: async (db, close) => {
      if (isOwn() || statOf(file) === null) return close();
      const isWhole = isFoldedBack(db);
      await close();
      if (own?.get(LOG) === identityOf(file + LOG)) putAside(file + LOG, isWhole);
      if (own?.get(INDEX) === identityOf(file + INDEX)) rmSync(file + INDEX, { force: true });
    },
  };
}

/** The error of whatever is asked of a file that is not the one of its name. */
function nameLost(file: string): SyncError {
  const isGone = statOf(file) === null;
  const what = isGone ? 'is no longer there, or may not be read' : 'or its log is no longer the file that was opened';
  const hint = isGone
    ? 'put it back, or restart to begin a new copy'
    : 'restart `serve`, or run the same command again, to go on with the file that is there now';
  return new SyncError('warehouse_gone', `${file} ${what}`, { recovery: 'stop', hint });
}

/** Copies the log into the file that it belongs to. False if a program that reads it keeps us from that. */
function isFoldedBack(db: Database): boolean {
  try {
    return db.prepare<[], { busy: number }>('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
  } catch {
    return false;
  }
}

/** A log that still holds what its file lacks is kept under another name, for the person who moved the file. */
function putAside(log: string, isWhole: boolean): void {
  if (isWhole) rmSync(log, { force: true });
  else renameSync(log, `${log}.left`);
}

function identityOf(path: string): string | null {
  const stat = statOf(path);
  return stat === null ? null : `${stat.dev}:${stat.ino}`;
}

/** Null if there is nothing, or nothing that may be looked at. Numbers of files may be larger than a double holds. */
function statOf(path: string): BigIntStats | null {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false }) ?? null;
  } catch {
    return null;
  }
}
