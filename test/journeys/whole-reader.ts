import Database from 'better-sqlite3';
import { Client } from 'pg';
import { snapshotOf } from '../support/postgres-snapshot.ts';

/** A BI tool's connection to a warehouse. */
export interface WholeReader {
  /** Gives everything, as one transaction sees it, to `look`, as a SQLite database on either. */
  read(look: (db: Database.Database) => void): Promise<void>;
  close(): Promise<void>;
}

export function openReader(address: string): Promise<WholeReader> {
  return address.startsWith('sqlite:') ? Promise.resolve(fileReader(address)) : schemaReader(address);
}

function fileReader(address: string): WholeReader {
  const db = new Database(address.slice('sqlite:'.length), { readonly: true });
  return {
    read: (look) => Promise.resolve(db.transaction(look)(db)),
    close: async () => void db.close(),
  };
}

async function schemaReader(address: string): Promise<WholeReader> {
  const url = new URL(address);
  const schema = url.searchParams.get('schema') ?? 'public';
  url.searchParams.delete('schema');
  const client = new Client({ connectionString: url.href });
  await client.connect();
  return {
    read: async (look) => {
      const db = await snapshotOf(client, schema);
      look(db);
      db.close();
    },
    close: () => client.end(),
  };
}
