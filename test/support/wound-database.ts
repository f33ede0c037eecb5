import type { TestDatabase } from './databases.ts';
import { asOtherClient } from './postgres-clients.ts';

/** Any moment that is over. */
const ORIGIN = "timestamptz '2026-01-01'";

/**
 * The same database for a process whose clock runs `factor` times as fast. What processes on one Postgres share, such as
 * the budget of requests, goes by its clock: in the server's own time, a second that the service asks for would take one.
 */
export function wound(database: TestDatabase, factor: number): TestDatabase {
  if (database.name === 'sqlite') return database;
  const schema = `wound_${factor}`;
  return {
    ...database,
    setting: async (folder) => {
      const setting = await database.setting(folder);
      await asOtherClient(setting, async (client) => void (await client.query(fasterClock(schema, factor))));
      // Where a session looks for functions, the server's own come second.
      return `${setting}&options=${encodeURIComponent(`-c search_path=${schema},pg_catalog,public`)}`;
    },
    read: (address, look) => database.read(withoutOptions(address), look),
    write: (address, statement, ...values) => database.write(withoutOptions(address), statement, ...values),
  };
}

function fasterClock(schema: string, factor: number): string {
  return `CREATE SCHEMA IF NOT EXISTS ${schema};
    CREATE OR REPLACE FUNCTION ${schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    RETURN ${ORIGIN} + (pg_catalog.clock_timestamp() - ${ORIGIN}) * ${factor}`;
}

function withoutOptions(address: string): string {
  const url = new URL(address);
  url.searchParams.delete('options');
  return url.href;
}
