// Connection pools, one per connection string, shared by all sources of this thread: hundreds of sources in one database,
// each in its schema, take eight connections and not eight each. The last source that is closed ends the pool.
import { Socket } from 'node:net';
import { Pool, type PoolConfig } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import { connectionId, type PostgresAddress, shownAddress } from '../address.ts';
import { VALUE_PARSERS } from './column-types.ts';
import type { PostgresSchema } from './transact.ts';

const MAX_CONNECTIONS = 8;
const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;

/** A pool, and how many opened schemas use it. */
interface SharedPool extends Pick<PostgresSchema, 'pool' | 'lastMarks'> {
  users: number;
}

/** By `connectionId`. */
const pools = new Map<string, SharedPool>();

/** A schema whose pool exists while it has users. */
interface BorrowedDatabase {
  readonly database: PostgresSchema;
  /** The last release ends the pool. */
  release: () => Promise<void>;
}

/** Returns the schema at an address, with one pool per connection string. Opens no connection. */
export function borrowDatabase(address: PostgresAddress, clock: Clock): BorrowedDatabase {
  const { connection, schema } = address;
  const id = connectionId(connection);
  const shared = pools.get(id) ?? createPool(connection);
  pools.set(id, shared);
  shared.users += 1;
  const { pool, lastMarks } = shared;
  let isReleased = false;
  return {
    database: { pool, lastMarks, schema, shown: shownAddress(address), clock, random: Math.random },
    release: async () => {
      if (isReleased) return;
      isReleased = true;
      shared.users -= 1;
      if (shared.users > 0) return;
      pools.delete(id);
      await pool.end();
    },
  };
}

function createPool(connection: string): SharedPool {
  const config: PoolConfig = {
    connectionString: connection,
    max: MAX_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    keepAlive: true,
    // Statements are sent without waiting for the responses to earlier ones (`Session.runAll`).
    pipeline: true,
    application_name: 'content-sync',
    types: VALUE_PARSERS,
    // A hanging connection attempt must not keep the process alive; an open connection must (`ref` below).
    stream: () => new Socket().unref(),
  };
  const pool = new Pool(config);
  // Ignore idle connections that the server ends: the next query opens another one.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    // The types of `pg` lack `ref`.
    if ('ref' in client && typeof client.ref === 'function') client.ref();
    // The next statement on the connection reports the error.
    client.on('error', () => undefined);
  });
  const lastMarks: PostgresSchema['lastMarks'] = new Map();
  pool.on('remove', (client) => lastMarks.delete(client));
  return { pool, lastMarks, users: 0 };
}
