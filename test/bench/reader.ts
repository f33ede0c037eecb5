import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { Client } from 'pg';
import { VALUE_PARSERS } from '../../src/database/postgres/connection/column-types.ts';

/** A row of `content`. */
interface ContentRow {
  id: string;
  title: string | null;
}

/** A connection of its own to a source's warehouse or inbox, as a BI tool has one. */
export interface Reader {
  /** Rows of `content` with these ids. */
  content(ids: readonly string[]): Promise<ContentRow[]>;
  /** Rows of a query that both databases understand. */
  rows<Row>(query: string): Promise<Row[]>;
  close(): Promise<void>;
}

const CONTENT = 'SELECT id, title FROM content WHERE id';

/** Opens one at an address with its schema or file. Throws while the product has not made it. */
export function openReader(address: string): Promise<Reader> {
  return address.startsWith('sqlite:')
    ? Promise.resolve(openFile(address.slice('sqlite:'.length)))
    : openSchema(new URL(address));
}

function openFile(file: string): Reader {
  if (!existsSync(file)) throw new Error(`there is no ${file}`);
  const db = new Database(file, { readonly: true, timeout: 5_000 });
  return {
    content: (ids) =>
      Promise.resolve(
        db.prepare<[string], ContentRow>(`${CONTENT} IN (SELECT value FROM json_each(?))`).all(JSON.stringify(ids)),
      ),
    rows: <Row>(query: string) => Promise.resolve(db.prepare<[], Row>(query).all()),
    close: () => Promise.resolve(void db.close()),
  };
}

async function openSchema(url: URL): Promise<Reader> {
  const schema = url.searchParams.get('schema');
  url.searchParams.delete('schema');
  const client = new Client({ connectionString: url.href, types: VALUE_PARSERS });
  await client.connect();
  await client.query(`SET search_path TO "${schema}"`);
  return {
    content: async (ids) => (await client.query<ContentRow>(`${CONTENT} = ANY ($1)`, [ids])).rows,
    rows: async <Row>(query: string) => {
      const { rows } = await client.query(query);
      // oxlint-disable-next-line no-unsafe-type-assertion -- whoever asks knows what the query gives
      return rows as Row[];
    },
    close: () => client.end(),
  };
}
