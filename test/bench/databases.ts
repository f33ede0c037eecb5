import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { startPostgres } from '../support/postgres-server.ts';

/** A kind of database that the bench runs on. */
export interface BenchDatabase {
  name: string;
  /** The yardstick on it, in this folder. */
  rawLoop: string;
  /** Of its server, if it has one. */
  pid?: number;
  /** Makes an empty database: what the raw loop takes, and the `warehouse` setting for the same. */
  make(name: string): Promise<{ raw: string; setting: string }>;
  /** Between two measured runs: what one has left to do is not done in the time of the next. */
  settle(): Promise<void>;
  drop(name: string): Promise<void>;
  close(): Promise<void>;
}

const nothing = (): Promise<void> => Promise.resolve();

/** By the name on the command line; `folder` is gone with the bench. */
export const OPEN_DATABASE: Readonly<Record<string, (folder: string) => Promise<BenchDatabase>>> = {
  sqlite: (folder) =>
    Promise.resolve({
      name: 'sqlite',
      rawLoop: 'raw-loop.ts',
      make: (name) => {
        const file = path.join(folder, `${name}.db`);
        return Promise.resolve({ raw: file, setting: `sqlite:${file}` });
      },
      settle: nothing,
      drop: (name) => {
        for (const ending of ['', '-wal', '-shm', '-journal'])
          rmSync(path.join(folder, `${name}.db${ending}`), { force: true });
        return Promise.resolve();
      },
      close: nothing,
    }),
  postgres: async () => {
    // As Postgres comes, a write is durable.
    const server = await startPostgres({ settings: { fsync: 'on', full_page_writes: 'on', max_connections: '100' } });
    const admin = new Client({ connectionString: server.url() });
    await admin.connect();
    const { rows } = await admin.query<{ data_directory: string }>('SHOW data_directory');
    const pid = Number.parseInt(readFileSync(path.join(rows[0]?.data_directory ?? '', 'postmaster.pid'), 'utf8'), 10);
    return {
      name: 'postgres',
      pid,
      rawLoop: 'raw-loop-postgres.ts',
      make: async (name) => {
        const { rowCount } = await admin.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
        if (rowCount === 0) await admin.query(`CREATE DATABASE "${name}"`);
        return { raw: server.url(name), setting: `${server.url(name)}?schema={source}` };
      },
      settle: async () => void (await admin.query('CHECKPOINT')),
      drop: async (name) => void (await admin.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`)),
      close: async () => {
        await admin.end();
        await server.remove();
      },
    };
  },
};
