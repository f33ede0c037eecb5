import path from 'node:path';
import { Client } from 'pg';
import { inject, onTestFinished } from 'vitest';
import { tempFolder } from './temp-warehouse.ts';

/** A kind of database that tests run on. */
export interface TestDatabase {
  name: 'sqlite' | 'postgres';
  /** Null where tests can run on it here, else why not. */
  missing: string | null;
  /** The address of an empty warehouse of its own, gone when the test is over. */
  address(): Promise<string>;
}

const server = inject('postgres');

export const SQLITE: TestDatabase = {
  name: 'sqlite',
  missing: null,
  address: () => Promise.resolve(`sqlite:${path.join(tempFolder(), 'blog.db')}`),
};

export const POSTGRES: TestDatabase = {
  name: 'postgres',
  missing: server === '' ? 'there is no Postgres for this machine' : null,
  address: async () => `${await postgresDatabase()}?schema=blog`,
};

/** For `describe.for(DATABASES)`: those that are here. */
export const DATABASES: readonly TestDatabase[] = [SQLITE, POSTGRES].filter(({ missing }) => missing === null);

let made = 0;

/** The address of an empty Postgres database of its own, without a schema; gone when the test is over. */
export async function postgresDatabase(): Promise<string> {
  made += 1;
  const name = `test_${process.pid}_${Date.now().toString(36)}_${made}`;
  await asAdmin(`CREATE DATABASE ${name} TEMPLATE template0`);
  onTestFinished(() => asAdmin(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  return server.replace(/postgres$/, name);
}

async function asAdmin(statement: string): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Runs `use` on a connection of its own, as every other program would. */
export async function asOtherClient<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const url = new URL(address);
  const schema = url.searchParams.get('schema');
  url.searchParams.delete('schema');
  const client = new Client({ connectionString: url.href });
  await client.connect();
  try {
    if (schema !== null) await client.query(`SET search_path TO "${schema}"`);
    return await use(client);
  } finally {
    await client.end();
  }
}
