import { Pool } from 'pg';
import { Agent, request } from 'undici';

/**
 * The yardstick on Postgres: what a programmer would write who knows the schema and checks nothing. Pages of 500, 4 in
 * flight, whose bytes are passed on as they came: one jsonb parameter, taken apart by the server into 16 columns and
 * the raw JSON, one statement a page on 2 connections.
 * Arguments: base URL, API key, connection string, records.
 */
const [base = '', key = '', connectionString = '', count = '0'] = process.argv.slice(2);
const SIZE = 500;
const IN_FLIGHT = 4;
const CONNECTIONS = 2;
/** Before the text of a jsonb value in Postgres's binary format. */
const JSONB_VERSION = Buffer.from([1]);

const COLUMNS: Readonly<Record<string, string>> = {
  id: "r->>'id'",
  slug: "r->>'slug'",
  title: "r->>'title'",
  status: "r->>'status'",
  excerpt: "r->>'excerpt'",
  body: "r->>'body'",
  author_id: "r->'author'->>'id'",
  author_name: "r->'author'->>'name'",
  seo_description: "r->'seo'->>'description'",
  word_count: "(r->>'word_count')::bigint",
  revision: "(r->>'revision')::bigint",
  reading_minutes: "(r->>'reading_minutes')::double precision",
  featured: "(r->>'featured')::boolean",
  created_at: "(r->>'created_at')::timestamptz",
  updated_at: "(r->>'updated_at')::timestamptz",
  published_at: "(r->>'published_at')::timestamptz",
  raw: 'r',
};
const names = Object.keys(COLUMNS);
const updates = names.slice(1).map((name) => `${name} = excluded.${name}`);
const text = `INSERT INTO content (${names.join(', ')})
  SELECT ${Object.values(COLUMNS).join(', ')} FROM jsonb_array_elements($1::jsonb->'data') AS r
  ON CONFLICT (id) DO UPDATE SET ${updates.join(', ')} WHERE excluded.raw <> content.raw`;

const pool = new Pool({ connectionString, max: CONNECTIONS });
await pool.query(`CREATE TABLE IF NOT EXISTS content (id text PRIMARY KEY, slug text, title text, status text,
  excerpt text, body text, author_id text, author_name text, seo_description text, word_count bigint, revision bigint,
  reading_minutes double precision, featured boolean, created_at timestamptz, updated_at timestamptz,
  published_at timestamptz, raw jsonb)`);

const agent = new Agent({ connections: IN_FLIGHT });
const headers = { authorization: `Bearer ${key}` };

async function fetchPage(page: number): Promise<Uint8Array> {
  const { body } = await request(`${base}/v1/content?limit=${SIZE}&page=${page}`, { dispatcher: agent, headers });
  return body.bytes();
}

const pages = Math.ceil(Number(count) / SIZE);
const coming: Promise<Uint8Array>[] = [];
let next = 1;

function takePage(): Promise<Uint8Array> | undefined {
  while (coming.length < IN_FLIGHT && next <= pages) coming.push(fetchPage(next++));
  return coming.shift();
}

async function writePages(): Promise<void> {
  for (let page = takePage(); page !== undefined; page = takePage()) {
    await pool.query({ name: 'page', text, values: [Buffer.concat([JSONB_VERSION, await page])] });
  }
}

await Promise.all(Array.from({ length: CONNECTIONS }, writePages));
await agent.close();
await pool.end();
