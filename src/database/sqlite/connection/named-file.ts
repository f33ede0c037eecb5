// Notices that an open database file was moved or deleted, or that another file has taken its path. SQLite would go on with
// the moved file: a webhook would be acknowledged, and stored where nobody looks for it.
import { renameSync, rmSync, statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { SyncError } from '../../../model/errors.ts';

/** What SQLite adds to the path of a database for its log, which has the latest commits, and for the index of the log. */
const LOG = '-wal';
const INDEX = '-shm';

/** The path of an open database, and the files that were opened there. */
export class NamedFile {
  readonly #path: string;
  readonly #identityBefore: string | null;
  /** Identities of database, log and index by the end of their paths; empty until they are open. */
  readonly #opened = new Map<string, string>();

  /** To be created before the database is opened. */
  constructor(path: string) {
    this.#path = path;
    this.#identityBefore = readIdentity(path);
  }

  /** Notes which files are open, once the log exists. Throws `warehouse_gone` if the path may lead to another file by now. */
  opened(): void {
    for (const end of ['', LOG, INDEX]) {
      const identity = readIdentity(this.#path + end);
      if (identity !== null) this.#opened.set(end, identity);
    }
    const found = this.#opened.get('');
    const isReplaced = this.#identityBefore !== null && this.#identityBefore !== found;
    if (found === undefined || isReplaced) throw pathLost(this.#path);
  }

  /** True if the paths lead to the open files; a file that did not exist when the database was opened is not compared. */
  isOwn(ends: readonly string[] = ['', LOG, INDEX]): boolean {
    return ends.every((end) => !this.#opened.has(end) || this.#isOpened(end));
  }

  #isOpened(end: string): boolean {
    return this.#opened.get(end) === readIdentity(this.#path + end);
  }

  /** Runs work between two checks. Throws `warehouse_gone` if the path leads to another file, also just after the work. */
  async whileNamed<T>(work: () => T | Promise<T>): Promise<T> {
    this.#check();
    const result = await work();
    this.#check();
    return result;
  }

  #check(): void {
    if (!this.isOwn(['', LOG])) throw pathLost(this.#path);
  }

  /** Closes the database. If another file has taken its path, the log must not stay there: SQLite would replay it into that file. */
  async close(db: Database, close: () => Promise<void>): Promise<void> {
    if (this.isOwn() || readIdentity(this.#path) === null) return close();
    const isCopied = copyLog(db);
    await close();
    const log = this.#path + LOG;
    if (this.#isOpened(LOG)) {
      // The operator who moved the file may still need commits that are only in the log.
      if (isCopied) rmSync(log, { force: true });
      else renameSync(log, `${log}.left`);
    }
    if (this.#isOpened(INDEX)) rmSync(this.#path + INDEX, { force: true });
  }
}

function pathLost(file: string): SyncError {
  const isGone = readIdentity(file) === null;
  const what = isGone ? 'is no longer there, or may not be read' : 'or its log is no longer the file that was opened';
  const hint = isGone
    ? 'put it back, or restart to begin a new copy'
    : 'restart `serve`, or run the same command again, to go on with the file that is there now';
  return new SyncError('warehouse_gone', `${file} ${what}`, { recovery: 'stop', hint });
}

/** Copies the log into its file. Returns false if a program that reads the log prevents that. */
function copyLog(db: Database): boolean {
  try {
    return db.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0;
  } catch {
    return false;
  }
}

/** Null if there is no file, or this user may not look at it. Inode numbers may be larger than a double holds. */
function readIdentity(path: string): string | null {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}
