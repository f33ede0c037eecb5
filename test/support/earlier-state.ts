import path from 'node:path';
import Database from 'better-sqlite3';
import type { Client } from 'pg';
import { asOtherClient } from './databases.ts';
import { tempFolder } from './temp-warehouse.ts';

/** A warehouse as it stood at a moment, to be put in its place again while somebody works with it. */
export interface EarlierState {
  putBack(): Promise<void>;
}

/**
 * Keeps what stands in a warehouse now. On SQLite by a backup of the file; on Postgres by a copy of the schema's tables,
 * which is to a client what a failover to a replica is that had heard of nothing since.
 */
export function keepState(address: string): Promise<EarlierState> {
  return address.startsWith('sqlite:') ? keepFile(address.slice('sqlite:'.length)) : keepSchema(address);
}

async function keepFile(file: string): Promise<EarlierState> {
  const kept = path.join(tempFolder(), 'kept.db');
  await backup(file, kept);
  return { putBack: () => backup(kept, file) };
}

async function backup(from: string, to: string): Promise<void> {
  const db = new Database(from, { timeout: 5_000 });
  try {
    await db.backup(to, { progress: () => 10_000 });
  } finally {
    db.close();
  }
}

async function keepSchema(address: string): Promise<EarlierState> {
  const schema = new URL(address).searchParams.get('schema') ?? 'public';
  const kept = `kept_${schema}`;
  await asOtherClient(address, async (client) => {
    await client.query(`BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE SCHEMA "${kept}"`);
    for (const table of await tablesIn(client, schema)) {
      await client.query(`CREATE TABLE "${kept}"."${table}" AS TABLE "${schema}"."${table}"`);
    }
    await client.query('COMMIT');
  });
  return { putBack: () => asOtherClient(address, (client) => putSchemaBack(client, schema, kept)) };
}

async function putSchemaBack(client: Client, schema: string, kept: string): Promise<void> {
  // The first table that everybody takes, so that nobody waits for us in a circle.
  await client.query(`BEGIN; LOCK TABLE "${schema}"."_sync_leases" IN ACCESS EXCLUSIVE MODE`);
  const known = new Set(await tablesIn(client, kept));
  for (const table of await tablesIn(client, schema)) {
    if (!known.has(table)) await client.query(`DROP TABLE "${schema}"."${table}" CASCADE`);
  }
  for (const table of known) {
    const columns = await columnsOf(client, kept, table);
    for (const column of (await columnsOf(client, schema, table)).filter((name) => !columns.includes(name))) {
      await client.query(`ALTER TABLE "${schema}"."${table}" DROP COLUMN "${column}" CASCADE`);
    }
    const list = columns.map((name) => `"${name}"`).join(', ');
    await client.query(`TRUNCATE "${schema}"."${table}"`);
    await client.query(`INSERT INTO "${schema}"."${table}" (${list}) SELECT ${list} FROM "${kept}"."${table}"`);
  }
  await client.query('COMMIT');
}

async function tablesIn(client: Client, schema: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    'SELECT tablename AS name FROM pg_tables WHERE schemaname = $1',
    [schema],
  );
  return rows.map(({ name }) => name);
}

async function columnsOf(client: Client, schema: string, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    'SELECT column_name AS name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2',
    [schema, table],
  );
  return rows.map(({ name }) => name);
}
