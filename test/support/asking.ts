import Database from 'better-sqlite3';
import { Client, type types } from 'pg';

/** A row as a program gets it that reads all values as texts, on either database. */
export type TextRow = Record<string, string | null>;

/** How somebody who reads the warehouse asks: statements of a session of his own. */
export interface AskingOptions {
  /** Statements before, on Postgres. */
  settings?: readonly string[];
}

/** Rows of a query on a warehouse, views of ours included, every value as a text. */
export async function ask(address: string, query: string, { settings = [] }: AskingOptions = {}): Promise<TextRow[]> {
  if (address.startsWith('sqlite:')) return askFile(address.slice('sqlite:'.length), query);
  const client = new Client({ connectionString: address, types: { getTypeParser: () => asText } });
  await client.connect();
  try {
    const schema = new URL(address).searchParams.get('schema') ?? 'public';
    await client.query(`SET search_path TO ${client.escapeIdentifier(schema)}`);
    for (const statement of settings) await client.query(statement);
    return (await client.query<TextRow>(query)).rows;
  } finally {
    await client.end();
  }
}

const asText: ReturnType<typeof types.getTypeParser> = (value: string | Buffer) => String(value);

function askFile(file: string, query: string): TextRow[] {
  const db = new Database(file, { readonly: true, timeout: 5_000 });
  try {
    const rows = db.prepare<[], Record<string, unknown>>(query).safeIntegers().all();
    return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, textOf(value)])));
  } finally {
    db.close();
  }
}

function textOf(value: unknown): string | null {
  if (typeof value === 'number' || typeof value === 'bigint') return value.toString();
  return typeof value === 'string' ? value : null;
}
