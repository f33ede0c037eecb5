import { writeFileSync } from 'node:fs';
import path from 'node:path';
import Sqlite from 'better-sqlite3';
import { Client } from 'pg';
import type { BenchDatabase } from './databases.ts';
import { measure, median } from './measure.ts';

/** A service with its records, and where configs may be written. */
export interface QueryStage {
  url: string;
  key: string;
  folder: string;
  main: string;
}

/** Typical questions of analysts, in SQL that both databases read, and what each is called in the table. */
const QUERIES: Readonly<Record<string, string>> = {
  'views by post and month': `SELECT c.id, substr(CAST(a.date AS TEXT), 1, 7) AS month, sum(a.views) AS views
    FROM content_live c JOIN analytics_live a ON a.content_id = c.id GROUP BY 1, 2`,
  'views by author': `SELECT w.handle, sum(a.views) AS views FROM content_authors_live w
    JOIN analytics_live a ON a.content_id = w.content_id GROUP BY 1`,
  // Of 46 days that the generated records of the usual bench span.
  'top of the last 4 days': `SELECT a.content_id, sum(a.views) AS views FROM analytics_live a
    WHERE a.updated_at >= '2020-02-12' GROUP BY 1 ORDER BY 2 DESC LIMIT 10`,
  'days of one post': `SELECT c.title, a.date, a.views FROM content_live c JOIN analytics_live a ON a.content_id = c.id
    WHERE c.id = 'cnt_000000777' ORDER BY a.date`,
  'views per post': 'SELECT content_id, sum(views) AS views, sum(visitors) AS visitors FROM analytics_live GROUP BY 1',
  'unused images': `SELECT count(*) AS n FROM images_live i
    WHERE NOT EXISTS (SELECT 1 FROM content_live c WHERE c.seo_image_id = i.id)`,
  'count by state': 'SELECT status, count(*) AS n FROM content_live GROUP BY 1',
  'how fresh': 'SELECT max(updated_at) AS newest FROM analytics_live',
  'published since': `SELECT id, slug FROM content_live WHERE published_at >= (SELECT max(published_at) FROM content_live)`,
  'one record by id': "SELECT * FROM content_live WHERE id = 'cnt_000000777'",
  'one record by slug': "SELECT * FROM content_live WHERE slug = 'post-777'",
};

/** Before: tables with their keys alone. After: with what the layer makes of the relations by itself. */
const PROFILES = {
  before: { relations: {}, indexes: 'none' },
  after: {
    relations: { 'analytics.content_id': 'content.id', 'content.seo_image_id': 'images.id' },
    indexes: 'auto',
  },
};

/** Medians in milliseconds per query, before and after by turns, as rows of a Markdown table. */
export async function benchQueries(database: BenchDatabase, stage: QueryStage, rounds: number): Promise<string> {
  const readers: Record<string, Reader> = {};
  try {
    for (const [name, profile] of Object.entries(PROFILES)) {
      const { raw, setting } = await database.make(`queries_${name}`);
      await run(stage, setting, profile);
      readers[name] = await openReader(database.name, raw);
      await readers[name].settle();
      await database.settle();
    }
    return table(database.name, await timesOf(readers, rounds));
  } finally {
    for (const [name, reader] of Object.entries(readers)) {
      await reader.close();
      await database.drop(`queries_${name}`);
    }
  }
}

async function run(stage: QueryStage, warehouse: string, profile: object): Promise<void> {
  const { indexes, ...whole } = { indexes: 'auto', ...profile };
  const page = { size: 500 };
  const resources = Object.fromEntries(['content', 'images', 'analytics'].map((name) => [name, { page, indexes }]));
  const file = path.join(stage.folder, 'queries.yaml');
  writeFileSync(file, JSON.stringify({ extends: 'content-service-page', ...whole, resources }));
  const config = path.join(stage.folder, 'queries-config.yaml');
  const auth = { type: 'api_key', key: stage.key };
  const sources = { bench: { base_url: stage.url, auth, profile: file, rate: { share: 1 } } };
  writeFileSync(config, JSON.stringify({ warehouse, sources }));
  await measure([stage.main, 'backfill', '--json', '--config', config, '--log-level', 'warn']);
}

interface Reader {
  ask: (query: string) => Promise<number>;
  settle: () => Promise<unknown>;
  close: () => Promise<unknown>;
}

async function openReader(name: string, address: string): Promise<Reader> {
  if (name === 'sqlite') {
    const open = (): Sqlite.Database => new Sqlite(address);
    return {
      ask: (query) => {
        const db = open();
        const rows = db.prepare(query).all().length;
        db.close();
        return Promise.resolve(rows);
      },
      settle: () => Promise.resolve(),
      close: () => Promise.resolve(),
    };
  }
  const client = new Client({ connectionString: address });
  await client.connect();
  await client.query('SET search_path TO bench');
  return {
    ask: async (query) => (await client.query(query)).rows.length,
    settle: () => client.query('VACUUM ANALYZE'),
    close: () => client.end(),
  };
}

type Times = Readonly<Record<string, Readonly<Record<string, number>>>>;

async function timesOf(readers: Readonly<Record<string, Reader>>, rounds: number): Promise<Times> {
  const times: Record<string, Record<string, number>> = {};
  for (const [query, text] of Object.entries(QUERIES)) {
    const taken = new Map(Object.keys(readers).map((name) => [name, new Array<number>()]));
    // The first round is for the caches.
    for (let round = 0; round <= rounds; round += 1) {
      for (const [name, { ask }] of Object.entries(readers)) {
        const started = performance.now();
        await ask(text);
        if (round > 0) taken.get(name)?.push(performance.now() - started);
      }
    }
    times[query] = Object.fromEntries(Array.from(taken, ([name, of]) => [name, median(of)]));
  }
  return times;
}

function table(database: string, times: Times): string {
  const rows = Object.entries(times).map(([name, { before = Number.NaN, after = Number.NaN }]) => {
    return `| ${name} | ${before.toFixed(1)} | ${after.toFixed(1)} | ${(before / after).toFixed(1)} |`;
  });
  return [`| ${database} | before, ms | after, ms | times |`, '| --- | --- | --- | --- |', ...rows, ''].join('\n');
}
