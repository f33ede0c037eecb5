// Opens a database file for reading, without changing the file or creating a log: for `status`, exports and `verify`.
// Two drivers are needed. Only Node's can read in a folder where the user may not write (`openReadOnly`). A process that
// also writes to the file must read it with better-sqlite3, by which it writes (`openBesideWriter`).
import { existsSync, statSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { Kysely } from 'kysely';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { SnapshotLost } from '../../snapshot-reader.ts';
import { databaseError } from './errors.ts';
import { BUSY_TIMEOUT_MS, fileDialect } from './open-file.ts';

/** A writer that is starting holds the lock for a moment. */
const READ_TIMEOUT_MS = 5_000;

/** A database file that is open for reading. Neither the file nor its log is changed. */
export interface ReadOnlyFile<Tables> {
  own: Kysely<Tables>;
  /** Returns the names of the applied migrations; null if the file has no internal tables. */
  stepsDone: () => string[] | null;
  /** Begins a snapshot: later writes are not seen. */
  freeze: () => void;
  /** Reads the rows of a query, integers as bigint. Throws `SnapshotLost` if a file without a log was changed meanwhile. */
  rows: (query: string) => Iterable<SQLOutputValue[]>;
  close: () => Promise<void>;
}

/** The functions in which the two drivers differ. */
interface ReadConnection {
  all: (query: string, values: readonly unknown[]) => object[];
  exec: (text: string) => unknown;
  iterate: (query: string) => Iterator<SQLOutputValue[]>;
  close: () => void;
}

/** Runs work with a driver, and translates its errors to `SyncError`. */
type RunGuarded = <T>(work: () => T) => T;

/**
 * Opens a file for reading. If it has no log, no process writes to it, and it is opened as immutable: otherwise SQLite
 * would create a log, which could block a writer under another user. `isShared` is true after `SnapshotLost`: then it is
 * opened as if it had a log. Throws `ConfigError`.
 */
export function openReadOnly<Tables>(file: string, isShared = false): ReadOnlyFile<Tables> {
  // The stamp is read first: a writer that starts after that changes the stamp or creates a log.
  const stamp = fileStamp(file);
  const hasLog = isShared || existsSync(`${file}-wal`) || existsSync(`${file}-journal`);
  const assertUnchanged = (): void => {
    if (!hasLog && (existsSync(`${file}-wal`) || fileStamp(file) !== stamp)) throw snapshotLost(file);
  };
  const runGuarded: RunGuarded = (work) => {
    try {
      return work();
    } catch (error) {
      // If the file was changed meanwhile, its pages do not fit together, and SQLite reports damage.
      assertUnchanged();
      throw readingError(error, file, hasLog);
    }
  };
  const url = pathToFileURL(file);
  url.search = hasLog ? 'mode=ro' : 'mode=ro&immutable=1';
  const db = runGuarded(() => new DatabaseSync(url, { readOnly: true, timeout: READ_TIMEOUT_MS }));
  const connection: ReadConnection = {
    // Kysely binds the values of our queries, all of which SQLite can hold.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    all: (query, values) => db.prepare(query).all(...(values as SQLInputValue[])),
    exec: (text) => db.exec(text),
    iterate: (query) => {
      const statement = db.prepare(query);
      statement.setReadBigInts(true);
      statement.setReturnArrays(true);
      // The types do not follow `setReturnArrays`.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      return statement.iterate() as unknown as Iterator<SQLOutputValue[]>;
    },
    close: () => {
      if (db.isOpen) db.close();
    },
  };
  return createReader(connection, runGuarded, assertUnchanged);
}

/** Identifies the content of a file. Waits if it was just written, because a second write could have the same time. */
function fileStamp(file: string): string {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (found === undefined) return 'gone';
  const age = Date.now() - Number(found.mtimeNs / 1_000_000n);
  if (age >= 0 && age < TICK_MS) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TICK_MS);
  return `${found.mtimeNs} ${found.size} ${found.ino}`;
}

/** Longer than the resolution of a file system's clock. */
const TICK_MS = 20;

function snapshotLost(file: string): SnapshotLost {
  return new SnapshotLost('warehouse_busy', `${file}: another process has written to it while it was read`, {
    recovery: 'retry',
    hint: 'run the same command again: it then reads while that process writes',
  });
}

/** Names of SQLite's primary result codes. */
const CODES: Readonly<Record<number, string>> = {
  5: 'SQLITE_BUSY',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  14: 'SQLITE_CANTOPEN',
  26: 'SQLITE_NOTADB',
};

function readingError(error: unknown, file: string, hasLog: boolean): unknown {
  const number = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
  const code = CODES[number];
  if (code === undefined) return error;
  if (!hasLog || (code !== 'SQLITE_READONLY' && code !== 'SQLITE_CANTOPEN')) {
    return databaseError(Object.assign(new Error(messageOf(error), { cause: error }), { code }), file);
  }
  return new ConfigError('warehouse_unreachable', `${file}: ${messageOf(error)} (${code})`, {
    hint: `check that this user may read ${file} and ${file}-wal. If no process uses them, the last one was killed: run content-sync once as a user who may write to the folder, or copy all these files to a folder of your own`,
    cause: error,
  });
}

/**
 * Opens a file that this process writes to, with the writer's driver: two drivers in one process release each other's
 * locks.
 */
export function openBesideWriter<Tables>(file: string): ReadOnlyFile<Tables> {
  const runGuarded: RunGuarded = (work) => {
    try {
      return work();
    } catch (error) {
      throw databaseError(error, file);
    }
  };
  const db = runGuarded(() => new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT_MS }));
  const connection: ReadConnection = {
    all: (query, values) => db.prepare<unknown[], object>(query).all(...values),
    exec: (text) => db.exec(text),
    iterate: (query) => db.prepare<[], SQLOutputValue[]>(query).raw().safeIntegers().iterate(),
    close: () => void db.close(),
  };
  return createReader(connection, runGuarded, () => undefined);
}

/** After this many rows, a file without a log is checked for changes again. */
const ROWS_PER_CHECK = 100;

/** `assertUnchanged` throws if the file was changed since it was opened, so that the rows may not fit together. */
function createReader<Tables>(
  connection: ReadConnection,
  runGuarded: RunGuarded,
  assertUnchanged: () => void,
): ReadOnlyFile<Tables> {
  const own = new Kysely<Tables>({
    dialect: fileDialect(({ sql, parameters }) =>
      Promise.resolve({ rows: runGuarded(() => connection.all(sql, parameters)) }),
    ),
  });
  function* rows(query: string): Generator<SQLOutputValue[]> {
    const found = runGuarded(() => connection.iterate(query));
    try {
      for (let read = 0; ; read += 1) {
        const { value, done } = runGuarded(() => found.next());
        if (done === true || read % ROWS_PER_CHECK === 0) assertUnchanged();
        if (done === true) return;
        yield value;
      }
    } finally {
      found.return?.();
    }
  }
  return {
    own,
    rows,
    stepsDone: () => {
      const [table] = rows("SELECT 1 FROM sqlite_schema WHERE name = '_sync_migrations'");
      return table === undefined
        ? null
        : Array.from(rows('SELECT name FROM _sync_migrations'), ([name]) => String(name));
    },
    freeze: () => {
      runGuarded(() => connection.exec('BEGIN'));
      // SQLite takes the snapshot with the first read.
      Array.from(rows('SELECT 1 FROM sqlite_schema LIMIT 1'));
    },
    close: async () => {
      await own.destroy();
      connection.close();
    },
  };
}
