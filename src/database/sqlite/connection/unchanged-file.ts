import { existsSync, statSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { Kysely, SqliteDialect } from 'kysely';
import { ConfigError, messageOf, SyncError } from '../../../model/errors.ts';
import { databaseError } from './errors.ts';
import Database from 'better-sqlite3';
import { BUSY_TIMEOUT_MS } from './wait-for-lock.ts';

/** A writer that is just starting holds the file for a moment. */
const BUSY_MS = 5_000;

/** A database file that somebody looks into, and of which nothing is changed, nor anything beside it made. */
export interface UnchangedFile<Tables> {
  own: Kysely<Tables>;
  /** Names of the migrations that the file has seen; null if it is none of ours. */
  stepsDone: () => string[] | null;
  /** Begins to read it as it stands now, whatever is written to it meanwhile. */
  freeze: () => void;
  /**
   * Rows of a query as they are read, integers as bigint. Throws `snapshot_lost` if somebody has written to a file that
   * nobody was at work on.
   */
  rows: (query: string) => Iterable<SQLOutputValue[]>;
  close: () => Promise<void>;
}

/**
 * Opens a file to read it, also in a folder where nothing can be written. SQLite keeps a log beside the files that we
 * write, and would make one for a reader too, which may then stand in the way of a writer under another name:
 * if there is no log, nobody is at work, and the file is read as one that does not change. The driver that we write
 * with has no word for that; Node's own has. `isBeside`: somebody comes and goes there, so a log is made after all. Throws `ConfigError`.
 */
export function openUnchanged<Tables>(file: string, isBeside = false): UnchangedFile<Tables> {
  // In this order: who writes after the stamp was taken changes it, or has a log.
  const stamp = stampOf(file);
  const hasLog = isBeside || existsSync(`${file}-wal`) || existsSync(`${file}-journal`);
  const refuse = hasLog ? () => undefined : () => refuseChanged(file, stamp);
  const url = pathToFileURL(file);
  url.search = hasLog ? 'mode=ro' : 'mode=ro&immutable=1';
  const told = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      // Pages of two states may look like damage.
      refuse();
      throw readingError(error, file, hasLog);
    }
  };
  const db = told(() => new DatabaseSync(url, { readOnly: true, timeout: BUSY_MS }));
  const own = new Kysely<Tables>({
    dialect: new SqliteDialect({
      database: { close: () => db.close(), prepare: (text) => told(() => statementOf(db.prepare(text), told)) },
    }),
  });
  return {
    own,
    stepsDone: () =>
      told(() => {
        const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = '_sync_migrations'").get();
        if (table === undefined) return null;
        return db
          .prepare('SELECT name FROM _sync_migrations')
          .all()
          .map(({ name }) => String(name));
      }),
    freeze: () =>
      told(() => {
        db.exec('BEGIN');
        // The moment is that of the first read.
        db.prepare('SELECT 1 FROM sqlite_schema').get();
      }),
    rows: (query) => rowsOf(db, query, told, refuse),
    close: async () => {
      await own.destroy();
      // Kysely closes only what it was asked through. Left to the garbage collector, it would be closed while the driver that
      // we write with has the file open in this process, and take that one's locks with it.
      if (db.isOpen) db.close();
    },
  };
}

/** What tells one state of a file from another, once it has not just been written: another write could look the same. */
function stampOf(file: string): string {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (found === undefined) return 'gone';
  const age = Date.now() - Number(found.mtimeNs / 1_000_000n);
  if (age >= 0 && age < TICK_MS) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TICK_MS);
  return `${found.mtimeNs} ${found.size} ${found.ino}`;
}

/** Longer than the clock of a file system stands still. */
const TICK_MS = 20;

/** Whoever writes begins a log first; one who came and went between two looks has changed the file. */
function refuseChanged(file: string, stamp: string): void {
  if (existsSync(`${file}-wal`) || stampOf(file) !== stamp) throw snapshotLost(file);
}

/** `refuse` throws once what is read cannot be trusted any more. */
function* rowsOf(
  db: DatabaseSync,
  query: string,
  told: <T>(work: () => T) => T,
  refuse: () => void,
): Generator<SQLOutputValue[]> {
  const statement = told(() => db.prepare(query));
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  // With `setReturnArrays`, which the types do not follow.
  // oxlint-disable-next-line no-unsafe-type-assertion
  const rows = statement.iterate() as unknown as Iterator<SQLOutputValue[]>;
  for (let read = 0; ; read += 1) {
    const { value, done } = told(() => rows.next());
    if (done === true || read % CHECKED_ROWS === 0) refuse();
    if (done === true) return;
    yield value;
  }
}

const CHECKED_ROWS = 100;

function snapshotLost(file: string): SyncError {
  return new SyncError('snapshot_lost', `${file}: another process has written to it while it was read`, {
    recovery: 'retry',
    hint: 'run the same command again: it reads beside that process then',
  });
}

/** As Kysely takes it. */
function statementOf(statement: StatementSync, told: <T>(work: () => T) => T) {
  return {
    reader: true,
    all: (values: readonly unknown[]) => told(() => statement.all(...bound(values))),
    run: (values: readonly unknown[]) => told(() => statement.run(...bound(values))),
    iterate: (values: readonly unknown[]) => statement.iterate(...bound(values)),
  };
}

/** Kysely binds the values of our queries, all of which SQLite can hold. */
function bound(values: readonly unknown[]): SQLInputValue[] {
  // oxlint-disable-next-line no-unsafe-type-assertion
  return [...values] as SQLInputValue[];
}

/** By SQLite's primary result codes. */
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
 * A file that this very process writes to, to be read as it stands at one moment. By the same library as the writer: of
 * two in one process each undoes the locks of the other as soon as it closes the file.
 */
export function readBeside<Tables>(file: string): UnchangedFile<Tables> {
  const told = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw databaseError(error, file);
    }
  };
  const db = told(() => new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT_MS }));
  return {
    own: new Kysely<Tables>({ dialect: new SqliteDialect({ database: db }) }),
    stepsDone: () => null,
    freeze: () =>
      told(() => {
        db.exec('BEGIN');
        // The moment is that of the first read.
        db.prepare('SELECT 1 FROM sqlite_schema').get();
      }),
    rows: (query) => rowsBeside(db, query, told),
    close: () => {
      db.close();
      return Promise.resolve();
    },
  };
}

type Row = ReturnType<UnchangedFile<unknown>['rows']> extends Iterable<infer Each> ? Each : never;

/** While they are read, nothing else is asked of the connection. */
function* rowsBeside(db: Database.Database, query: string, told: <T>(work: () => T) => T): Generator<Row> {
  const rows = told(() => db.prepare<[], Row>(query).raw().safeIntegers().iterate());
  try {
    for (;;) {
      const { value, done } = told(() => rows.next());
      if (done === true) return;
      yield value;
    }
  } finally {
    rows.return?.();
  }
}
