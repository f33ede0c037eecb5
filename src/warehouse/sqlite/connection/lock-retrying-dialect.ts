import type { Database } from 'better-sqlite3';
import { SqliteAdapter, SqliteDialect, SqliteDriver, type DatabaseConnection, type Dialect } from 'kysely';
import type { RetryWhileLocked } from './wait-for-lock.ts';

/** Kysely's SQLite, whose single statements wait for another program's lock as our transactions do. */
export function lockRetryingDialect(db: Database, patiently: RetryWhileLocked): Dialect {
  const dialect = new SqliteDialect({ database: db });
  return {
    createAdapter: () => new SingleStatements(),
    createDriver: () => new LockRetryingDriver(db, patiently),
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
  readonly #patiently: RetryWhileLocked;

  constructor(db: Database, patiently: RetryWhileLocked) {
    super({ database: db });
    this.#patiently = patiently;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    return {
      executeQuery: (query, options) => this.#patiently(() => connection.executeQuery(query, options)),
      streamQuery: (query, size, options) => connection.streamQuery(query, size, options),
    };
  }
}
