import Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { databaseError } from './errors.ts';
import type { UnchangedFile } from './unchanged-file.ts';
import { BUSY_TIMEOUT_MS } from './wait-for-lock.ts';

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
    rows: (query) => rowsOf(db, query, told),
    close: () => {
      db.close();
      return Promise.resolve();
    },
  };
}

type Row = ReturnType<UnchangedFile<unknown>['rows']> extends Iterable<infer Each> ? Each : never;

/** While they are read, nothing else is asked of the connection. */
function* rowsOf(db: Database.Database, query: string, told: <T>(work: () => T) => T): Generator<Row> {
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
