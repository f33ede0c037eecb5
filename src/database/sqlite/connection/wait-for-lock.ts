import type { Database } from 'better-sqlite3';
import { SqliteAdapter, SqliteDialect, SqliteDriver, type DatabaseConnection, type Dialect } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import { isBusy, databaseError } from './errors.ts';

/** SQLite waits for a lock by sleeping in our only thread: it must not wait at all, it is us who wait. */
export const BUSY_TIMEOUT_MS = 0;
const RETRY_FOR_MS = 60_000;
/** Pauses are short at first, so that a lock held for a moment costs a moment. */
const LONGEST_PAUSE_MS = 25;

/** Runs `work` again and again while another program holds the lock; everything that it throws is a `SyncError`. */
export type RetryWhileLocked = <T>(work: () => T | Promise<T>) => Promise<T>;

/** Retries for one database. */
export function lockRetry(clock: Clock, file: string): RetryWhileLocked {
  return async (work) => {
    const deadline = clock.monotonic() + RETRY_FOR_MS;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await work();
      } catch (error) {
        if (!isBusy(error) || clock.monotonic() > deadline) throw databaseError(error, file);
      }
      await clock.sleep(Math.min(2 ** attempt, LONGEST_PAUSE_MS));
    }
  };
}

/** Kysely's SQLite, whose single statements wait for another program's lock as our transactions do. */
export function lockRetryingDialect(db: Database, retry: RetryWhileLocked): Dialect {
  const dialect = new SqliteDialect({ database: db });
  return {
    createAdapter: () => new SingleStatements(),
    createDriver: () => new LockRetryingDriver(db, retry),
    createIntrospector: (own) => dialect.createIntrospector(own),
    createQueryCompiler: () => dialect.createQueryCompiler(),
  };
}

/**
 * Kysely lends its one connection to one statement at a time: a write that waits for a lock would keep all reads
 * waiting. Ours are single statements, of which none needs the connection for itself.
 */
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
