// Opens a database file for reading, without changing the file or creating a log: for `status`, exports and `verify`. There
// are two drivers: only Node's can read in a folder where nothing may be written, and a process that also writes to the file
// must read it with better-sqlite3, which writes it.
import { existsSync, statSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { Kysely } from 'kysely';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { SnapshotLost } from '../../snapshot-reader.ts';
import { databaseError } from './errors.ts';
import { BUSY_TIMEOUT_MS, fileDialect } from './open-file.ts';

/** A writer that is just starting holds the lock briefly. */
const READ_TIMEOUT_MS = 5_000;

/** A database file that is read; neither the file nor its log is changed. */
export interface ReadOnlyFile<Tables> {
  own: Kysely<Tables>;
  /** Names of the migrations that were applied to the file; null if it has no internal tables. */
  stepsDone: () => string[] | null;
  /** Begins a snapshot: later writes are not seen. */
  freeze: () => void;
  /** Rows of a query, integers as bigint. Throws `SnapshotLost` if a file without a log was written to. */
  rows: (query: string) => Iterable<SQLOutputValue[]>;
  close: () => Promise<void>;
}

/** The parts in which the two drivers differ. */
interface ReadConnection {
  all: (query: string, values: readonly unknown[]) => object[];
  exec: (text: string) => unknown;
  iterate: (query: string) => Iterator<SQLOutputValue[]>;
  close: () => void;
}

/** Runs work with a driver, and translates its errors. */
type Guarded = <T>(work: () => T) => T;

/**
 * Opens a file for reading, also in a folder where nothing can be written. SQLite would create a log, which could block
 * a writer under another user. A file without a log has no writer, so it is opened as immutable; only Node's driver can
 * do that. `isShared` opens it with a log, after `SnapshotLost`. Throws `ConfigError`.
 */
export function openReadOnly<Tables>(file: string, isShared = false): ReadOnlyFile<Tables> {
  // In this order: a later writer changes the stamp, or has a log.
  const stamp = fileStamp(file);
  const hasLog = isShared || existsSync(`${file}-wal`) || existsSync(`${file}-journal`);
  const verify = (): void => {
    if (!hasLog && (existsSync(`${file}-wal`) || fileStamp(file) !== stamp)) throw snapshotLost(file);
  };
  const guarded: Guarded = (work) => {
    try {
      return work();
    } catch (error) {
      // Pages of two states may look like damage.
      verify();
      throw readingError(error, file, hasLog);
    }
  };
  const url = pathToFileURL(file);
  url.search = hasLog ? 'mode=ro' : 'mode=ro&immutable=1';
  const db = guarded(() => new DatabaseSync(url, { readOnly: true, timeout: READ_TIMEOUT_MS }));
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
  return readOnlyFile(connection, guarded, verify);
}

/** Identifies the state of a file. Waits if it was just written, because a second write could have the same time. */
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
    hint: 'run the same command again: it reads beside that process then',
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
    hint: `check that this user may read it and what lies beside it; where nobody is at work on it, whoever wrote it was cut off, and ${file}-wal can be read only by one who may write there: run content-sync as that user once, or copy all its files to a place of your own`,
    cause: error,
  });
}

/**
 * Opens a file that this process writes to, with the writer's driver: two drivers in one process release each other's
 * locks.
 */
export function openBesideWriter<Tables>(file: string): ReadOnlyFile<Tables> {
  const guarded: Guarded = (work) => {
    try {
      return work();
    } catch (error) {
      throw databaseError(error, file);
    }
  };
  const db = guarded(() => new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT_MS }));
  const connection: ReadConnection = {
    all: (query, values) => db.prepare<unknown[], object>(query).all(...values),
    exec: (text) => db.exec(text),
    iterate: (query) => db.prepare<[], SQLOutputValue[]>(query).raw().safeIntegers().iterate(),
    close: () => void db.close(),
  };
  return readOnlyFile(connection, guarded, () => undefined);
}

/** After so many rows a file without a log is compared with its state at the start. */
const VERIFIED_ROWS = 100;

/** `guarded` translates errors; `verify` throws if the rows that were read are not from one state of the file. */
function readOnlyFile<Tables>(connection: ReadConnection, guarded: Guarded, verify: () => void): ReadOnlyFile<Tables> {
  const own = new Kysely<Tables>({
    dialect: fileDialect(({ sql, parameters }) =>
      Promise.resolve({ rows: guarded(() => connection.all(sql, parameters)) }),
    ),
  });
  function* rows(query: string): Generator<SQLOutputValue[]> {
    const found = guarded(() => connection.iterate(query));
    try {
      for (let read = 0; ; read += 1) {
        const { value, done } = guarded(() => found.next());
        if (done === true || read % VERIFIED_ROWS === 0) verify();
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
      guarded(() => connection.exec('BEGIN'));
      // SQLite takes the snapshot with the first read.
      Array.from(rows('SELECT 1 FROM sqlite_schema LIMIT 1'));
    },
    close: async () => {
      await own.destroy();
      connection.close();
    },
  };
}
