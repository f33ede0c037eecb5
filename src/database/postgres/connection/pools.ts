import { Socket } from 'node:net';
import { Pool, type PoolConfig } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import { connectionName, shownAddress, type PostgresAddress } from './address.ts';
import type { Database } from './transact.ts';
import { VALUE_PARSERS } from './column-types.ts';

/** Connections of one thread to one database, over all its sources: hundreds of sources share them. */
const MOST_CONNECTIONS = 8;
const CONNECT_MS = 10_000;
const IDLE_MS = 30_000;

const pools = new Map<string, { pool: Pool; users: number }>();

/** A database whose pool is there as long as somebody uses it. */
interface BorrowedDatabase {
  readonly database: Database;
  /** Ends the pool once its last user has released it. */
  release: () => Promise<void>;
}

/** The database at an address; all who use the same connection string share a pool. Opens no connection by itself. */
export function borrowDatabase(address: PostgresAddress, clock: Clock): BorrowedDatabase {
  const { connection, schema } = address;
  const name = connectionName(connection);
  const shared = pools.get(name) ?? { pool: newPool(connection), users: 0 };
  pools.set(name, shared);
  shared.users += 1;
  let isReleased = false;
  return {
    database: { pool: shared.pool, schema, shown: shownAddress(address), clock, random: Math.random },
    release: async () => {
      if (isReleased) return;
      isReleased = true;
      shared.users -= 1;
      if (shared.users > 0) return;
      pools.delete(name);
      await shared.pool.end();
    },
  };
}

function newPool(connection: string): Pool {
  const config: PoolConfig = {
    connectionString: connection,
    max: MOST_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    application_name: 'content-sync',
    types: VALUE_PARSERS,
    // A client that does not get as far as the server's welcome leaves its socket open: it must not keep the process.
    stream: () => new Socket().unref(),
  };
  const pool = new Pool(config);
  // An idle connection that the server ends is no event: the next question opens another one.
  pool.on('error', () => undefined);
  // Nor is one that the server ends in somebody's hand, in whatever moment: the next statement on it tells.
  pool.on('connect', (client) => {
    // `ref` is not in the types of `pg`.
    if ('ref' in client && typeof client.ref === 'function') client.ref();
    client.on('error', () => undefined);
  });
  return pool;
}
