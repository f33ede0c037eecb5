import { copyFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import Sqlite from 'better-sqlite3';
import { Client } from 'pg';
import { OPEN_DATABASE, type BenchDatabase } from './databases.ts';
import { measure, median } from './measure.ts';
import { KEY, productMain, startService } from './product.ts';

/**
 * A report of about a million rows in 700 days: what sums per day cost with the index that the product makes by itself,
 * without it, and on Postgres with a usual one; and what it costs to restate the last days with and without it.
 */
const { values: options } = parseArgs({
  options: { database: { type: 'string' }, days: { type: 'string', default: '700' } },
});
const POSTS = 600;
const RUNS = 5;
const RESTATED = 4;
const PORT = '18914';
/** A month and a year that are over end so long ago. */
const LATEST = Math.floor(Number(options.days) / 4);
const DAY_MS = 86_400_000;
const INDEX = '_sync_index_';

const dayBefore = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);
const sumsOf = (days: number, until: number): string =>
  `SELECT date, sum(views) AS views, sum(visitors) AS visitors FROM traffic_live
   WHERE date >= '${dayBefore(days + until)}' AND date < '${dayBefore(until)}' GROUP BY date ORDER BY date`;
const QUESTIONS = { 'a month': sumsOf(30, LATEST), 'a year': sumsOf(365, LATEST), 'the last 30 days': sumsOf(30, -1) };

interface Asked {
  ask(query: string): Promise<unknown[]>;
  change(statement: string): Promise<void>;
  sizes(): Promise<string>;
  plan(query: string): Promise<string>;
  /** The index by day that the product has made. */
  index(): Promise<MadeIndex | undefined>;
  close(): Promise<void>;
}

interface MadeIndex {
  name: string;
  sql: string;
}

/** By a program of its own, as an analyst's. */
async function reader({ name }: BenchDatabase, address: string): Promise<Asked> {
  return name === 'sqlite' ? onSqlite(address) : onPostgres(address);
}

function onSqlite(file: string): Asked {
  const db = new Sqlite(file);
  const all = (query: string): unknown[] => db.prepare(query).all();
  return {
    ask: (query) => Promise.resolve(all(query)),
    change: (statement) => Promise.resolve(void db.exec(statement)),
    sizes: () => Promise.resolve(`the file ${megabytes(statSync(file).size)}, ${sizeBeside(db)}`),
    plan: (query) => Promise.resolve(JSON.stringify(all(`EXPLAIN QUERY PLAN ${query}`))),
    index: () =>
      Promise.resolve(
        db.prepare<[], MadeIndex>(`SELECT name, sql FROM sqlite_schema WHERE name = '${INDEX}traffic.date'`).get(),
      ),
    close: () => Promise.resolve(void db.close()),
  };
}

/** Of the index, as a file of its own has it. */
function sizeBeside(db: Sqlite.Database): string {
  const before =
    Number(db.pragma('page_count', { simple: true })) - Number(db.pragma('freelist_count', { simple: true }));
  const index = db.prepare<[], string>(`SELECT sql FROM sqlite_schema WHERE name = '${INDEX}traffic.date'`).pluck();
  const statement = index.get() ?? '';
  db.exec(`DROP INDEX "${INDEX}traffic.date"`);
  const after =
    Number(db.pragma('page_count', { simple: true })) - Number(db.pragma('freelist_count', { simple: true }));
  db.exec(statement);
  const size = Number(db.pragma('page_size', { simple: true }));
  return `the index ${megabytes((before - after) * size)}`;
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

async function onPostgres(address: string): Promise<Asked> {
  const client = new Client({ connectionString: address });
  await client.connect();
  await client.query('SET search_path TO bench');
  const sizes = `SELECT relname || ' ' || pg_relation_size(oid) / 1000 || ' kB' AS size FROM pg_class
    WHERE oid = 'traffic'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'traffic'::regclass)`;
  const indexes = `SELECT indexname AS name, indexdef AS sql FROM pg_indexes
    WHERE schemaname = 'bench' AND indexname = '${INDEX}traffic.date'`;
  return {
    ask: async (query) => (await client.query(query)).rows,
    change: async (statement) => void (await client.query(statement)),
    sizes: async () => (await client.query<{ size: string }>(sizes)).rows.map(({ size }) => size).join(', '),
    plan: async (query) => {
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE, BUFFERS) ${query}`);
      return rows.map((row) => row['QUERY PLAN']).join('\n');
    },
    index: async () => (await client.query<MadeIndex>(indexes)).rows[0],
    close: () => client.end(),
  };
}

function configFor(folder: string, copy: { url: string; setting: string; indexes: 'auto' | 'none' }): string {
  const profile = path.join(folder, `reports-${copy.indexes}.yaml`);
  const windows = { start: dayBefore(Number(options.days)), largest: '7d' };
  const traffic = { windows, indexes: copy.indexes, page: { size: 5_000 } };
  const resources = { content: null, images: null, analytics: null, traffic };
  writeFileSync(profile, JSON.stringify({ extends: 'content-service-reports', resources }));
  const config = path.join(folder, `config-${copy.indexes}.yaml`);
  const bench = { base_url: copy.url, auth: { type: 'api_key', key: KEY }, profile, rate: { share: 1 } };
  writeFileSync(config, JSON.stringify({ warehouse: copy.setting, sources: { bench } }));
  return config;
}

/** The service at another moment of the same day, and the same address: what is not final has other figures every six hours. */
function serviceAt(hours: number) {
  const start = dayBefore(Number(options.days));
  const report = ['--report', 'traffic', '--report-posts', String(POSTS), '--report-start', start];
  return startService(...report, '--port', PORT, '--max-limit', '5000', '--clock-skew', `${hours}h`);
}

async function times(asked: Asked): Promise<string> {
  const found: string[] = [];
  for (const [name, query] of Object.entries(QUESTIONS)) {
    const taken: number[] = [];
    // The first one is for the caches.
    for (let run = 0; run <= RUNS; run += 1) {
      const started = performance.now();
      await asked.ask(query);
      if (run > 0) taken.push(performance.now() - started);
    }
    found.push(`${name} ${median(taken).toFixed(1)} ms`);
  }
  return found.join(', ');
}

async function benchQueries(database: BenchDatabase, address: string): Promise<void> {
  const asked = await reader(database, address);
  const tell = (what: string, text: string): void => console.log(`${database.name} ${what}: ${text}`);
  if (database.name === 'postgres') await asked.change('VACUUM ANALYZE traffic');
  tell('rows', JSON.stringify(await asked.ask('SELECT count(*) AS n, min(date), max(date) FROM traffic_live')));
  tell('sizes', await asked.sizes());
  tell('as it is', await times(asked));
  tell('plan', await asked.plan(QUESTIONS['a month']));
  const own = await asked.index();
  if (own === undefined) throw new Error('the product has made no index by date');
  tell('index', own.sql);
  await asked.change(`DROP INDEX "${own.name}"`);
  tell('without it', await times(asked));
  tell('plan', await asked.plan(QUESTIONS['a month']));
  if (database.name === 'postgres') {
    await asked.change('CREATE INDEX usual ON traffic (date)');
    tell('with a usual one', await times(asked));
    tell('sizes', await asked.sizes());
    tell('plan', await asked.plan(QUESTIONS['a month']));
    await asked.change('DROP INDEX usual');
  }
  await asked.change(own.sql);
  await asked.close();
}

interface Restated {
  mode: string;
  records: number;
  updated: number;
}

/** The last days by `sync`, by turns with and without the index. */
async function benchRestating(
  database: BenchDatabase,
  folder: string,
  settings: Readonly<Record<'auto' | 'none', string>>,
  main: string,
): Promise<void> {
  const taken = { auto: [] as number[], none: [] as number[] };
  const spent = { auto: [] as number[], none: [] as number[] };
  for (let round = 0; round <= RUNS; round += 1) {
    const service = await serviceAt(round % 2 === 0 ? -6 : 0);
    for (const indexes of ['auto', 'none'] as const) {
      const config = configFor(folder, { url: service.url, setting: settings[indexes], indexes });
      const args = [main, 'sync', '--json', '--config', config, '--log-level', 'warn'];
      const beside = database.pid === undefined ? {} : { server: database.pid };
      const { seconds, cpuSeconds, besideSeconds, stdout } = await measure(args, { beside });
      const { resources }: { resources: Restated[] } = JSON.parse(stdout);
      const server = besideSeconds['server'] ?? 0;
      const { mode, records, updated } = resources[0] ?? {};
      console.log(database.name, indexes, { round, mode, records, updated, seconds, cpuSeconds, server });
      // The first one builds what is missing, or takes it away.
      if (round > 0) taken[indexes].push(seconds);
      if (round > 0) spent[indexes].push(cpuSeconds + server);
    }
    service.stop();
    await database.settle();
  }
  for (const [what, found] of Object.entries({ seconds: taken, processor: spent })) {
    const [auto, none] = [median(found.auto), median(found.none)];
    console.log(
      `${database.name} ${RESTATED} days restated, ${what}: ${auto.toFixed(2)} with, ${none.toFixed(2)} without, ${(auto / none).toFixed(2)} ×`,
    );
  }
}

const main = productMain(false);
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-bench-'));
for (const name of options.database === undefined ? Object.keys(OPEN_DATABASE) : [options.database]) {
  const database = await OPEN_DATABASE[name]?.(folder);
  if (database === undefined) throw new Error(`no database ${name}`);
  try {
    const { raw, setting } = await database.make('reports');
    const service = await serviceAt(0);
    const config = configFor(folder, { url: service.url, setting, indexes: 'auto' });
    const made = await measure([main, 'backfill', '--json', '--config', config, '--log-level', 'warn']);
    console.log(`${name} backfill: ${made.seconds.toFixed(0)} s, peak ${made.peakMegabytes.toFixed(0)} MB`);
    service.stop();
    await benchQueries(database, raw);
    const other = await database.make('reports_bare');
    if (name === 'sqlite') copyFileSync(raw, other.raw);
    else await copyDatabase(raw, 'reports', 'reports_bare');
    await benchRestating(database, folder, { auto: setting, none: other.setting }, main);
    const asked = await reader(database, raw);
    console.log(`${name} after that, as it is: ${await times(asked)}`);
    console.log(`${name} plan: ${await asked.plan(QUESTIONS['the last 30 days'])}`);
    await asked.close();
  } finally {
    await database.close();
  }
}
rmSync(folder, { recursive: true, force: true });

async function copyDatabase(address: string, from: string, to: string): Promise<void> {
  const url = new URL(address);
  url.pathname = '/postgres';
  const client = new Client({ connectionString: url.href });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS "${to}"`);
  await client.query(`CREATE DATABASE "${to}" TEMPLATE "${from}"`);
  await client.end();
}
