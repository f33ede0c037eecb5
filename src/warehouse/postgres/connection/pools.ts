import { Socket } from 'node:net';
import { Pool, type PoolConfig } from 'pg';
import { connectionName } from './address.ts';
import { VALUE_PARSERS } from './value-parsers.ts';

/** Connections of one thread to one database, over all its sources: hundreds of sources share them. */
const MOST_CONNECTIONS = 8;
const CONNECT_MS = 10_000;
const IDLE_MS = 30_000;

interface SharedPool {
  pool: Pool;
  users: number;
}

const pools = new Map<string, SharedPool>();

/** A pool that is there as long as somebody uses it. */
export interface BorrowedPool {
  readonly pool: Pool;
  /** Ends the pool once its last user has given it back. */
  giveBack: () => Promise<void>;
}

/** The pool of this connection string; whoever asks for the same one shares it. Opens no connection by itself. */
export function borrowPool(connection: string): BorrowedPool {
  const name = connectionName(connection);
  const shared = pools.get(name) ?? { pool: newPool(connection), users: 0 };
  pools.set(name, shared);
  shared.users += 1;
  let isBack = false;
  return {
    pool: shared.pool,
    giveBack: async () => {
      if (isBack) return;
      isBack = true;
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
