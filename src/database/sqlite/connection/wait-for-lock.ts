import type { Database } from 'better-sqlite3';
import { SqliteAdapter, SqliteDialect, SqliteDriver, type DatabaseConnection, type Dialect } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import { databaseError, isBusy } from './errors.ts';

/** SQLite would block the only thread while it waits for a lock, so we wait instead. */
export const BUSY_TIMEOUT_MS = 0;
const RETRY_FOR_MS = 60_000;
const MAX_PAUSE_MS = 25;

/** Runs work again while another program holds the lock; all errors are `SyncError`s. */
export type RetryWhileLocked = <T>(work: () => T | Promise<T>) => Promise<T>;

export function lockRetry(clock: Clock, file: string): RetryWhileLocked {
  return async (work) => {
    const deadline = clock.monotonic() + RETRY_FOR_MS;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await work();
      } catch (error) {
        if (!isBusy(error) || clock.monotonic() > deadline) throw databaseError(error, file);
      }
      await clock.sleep(Math.min(2 ** attempt, MAX_PAUSE_MS));
    }
  };
}

/** Kysely's SQLite dialect, whose statements wait for another program's lock. */
export function lockRetryingDialect(db: Database, retry: RetryWhileLocked): Dialect {
  const dialect = new SqliteDialect({ database: db });
  return {
    createAdapter: () => new SingleStatements(),
    createDriver: () => new LockRetryingDriver(db, retry),
    createIntrospector: (own) => dialect.createIntrospector(own),
    createQueryCompiler: () => dialect.createQueryCompiler(),
  };
}

/** Lets statements share the connection: otherwise a write that waits for a lock would block all reads. */
class SingleStatements extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

class LockRetryingDriver extends SqliteDriver {
  readonly #retry: RetryWhileLocked;

  constructor(db: Database, retry: RetryWhileLocked) {
    super({ database: db });
    this.#retry = retry;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    return {
      executeQuery: (query, options) => this.#retry(() => connection.executeQuery(query, options)),
      streamQuery: (query, size, options) => connection.streamQuery(query, size, options),
    };
  }
}
