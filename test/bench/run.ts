import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { OPEN_DATABASE, type BenchDatabase } from './databases.ts';
import { measure, median, type Measured } from './measure.ts';
import { benchQueries } from './queries.ts';

/**
 * `npm run bench`: the product's backfill against the raw loop, interleaved, on the same server and data, first on
 * SQLite and then on Postgres, or only on the one named. Ratios are rows per second of the product divided by the raw
 * loop's in the same round; the figure is their median. Then typical queries (`--only queries`), with the tables as they
 * are loaded and with the keys and indexes that the layer makes.
 */
const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '5' },
    database: { type: 'string' },
    only: { type: 'string' },
  },
});
const RECORDS = Number(options.records);
const ROUNDS = Number(options.rounds);
const KEY = 'bench-key';

const root = path.join(import.meta.dirname, '..', '..');
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-bench-'));

interface Case {
  name: string;
  floor: number;
  aim: number;
  flat: boolean;
  history: 'all' | 'none';
  /** True: both load the same data into the database of the round before. */
  again: boolean;
}

const CASES: readonly Case[] = [
  { name: 'default', floor: 0.4, aim: 0.65, flat: false, history: 'all', again: false },
  { name: 'second', floor: 0.7, aim: 0.9, flat: false, history: 'all', again: true },
  { name: 'none-flat', floor: 0.6, aim: 0.85, flat: true, history: 'none', again: false },
];

interface Server {
  url: string;
  child: ChildProcess;
}

async function startServer(...args: string[]): Promise<Server> {
  const main = path.join(root, 'src/main.ts');
  const child = spawn(process.execPath, [main, 'sandbox', '--api-key', KEY, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  child.stdout.on('data', (chunk: Buffer) => {
    const { url }: { url: string } = JSON.parse(chunk.toString());
    resolve(url);
  });
  child.on('exit', () => reject(new Error('the sandbox did not start')));
  return { url: await promise, child };
}

function writeConfig(server: Server, history: Case['history'], warehouse: string): string {
  const profile = path.join(folder, 'bench.yaml');
  writeFileSync(
    profile,
    `extends: content-service-page\nresources:\n  images: null\n  analytics: null\n  content:\n    history: ${history}\n    page: { size: 500 }\n`,
  );
  const config = path.join(folder, 'config.yaml');
  writeFileSync(
    config,
    `warehouse: ${warehouse}\nsources:\n  bench:\n    base_url: ${server.url}\n    auth: { type: api_key, key: ${KEY} }\n    profile: ${profile}\n    rate: { share: 1 }\n`,
  );
  return config;
}

interface Round {
  raw: Measured;
  product: Measured;
}

async function round(test: Case, database: BenchDatabase, server: Server, number: number): Promise<Round> {
  const names = ['raw', 'product'].map((name) => (test.again ? `${name}_again` : `${name}_${test.history}_${number}`));
  const [raw, product] = await Promise.all(names.map((name) => database.make(name)));
  const rawLoop = [path.join(root, 'test/bench', database.rawLoop), server.url, KEY, raw?.raw ?? '', String(RECORDS)];
  const config = writeConfig(server, test.history, product?.setting ?? '');
  const backfill = [path.join(root, 'src/main.ts'), 'backfill', '--json', '--config', config, '--log-level', 'warn'];
  // The order changes from round to round, so that a machine that slows down slows both.
  const both = { raw: rawLoop, product: backfill };
  const measured: Partial<Round> = {};
  for (const side of number % 2 === 1 ? (['product', 'raw'] as const) : (['raw', 'product'] as const)) {
    await database.settle();
    measured[side] = await measure(both[side]);
  }
  if (!test.again) await Promise.all(names.map((name) => database.drop(name)));
  if (measured.raw === undefined || measured.product === undefined) throw new Error('a side was not measured');
  const { resources }: { resources: { records: number }[] } = JSON.parse(measured.product.stdout);
  const [report] = resources;
  if (report?.records !== RECORDS) throw new Error(`the product read ${report?.records} of ${RECORDS} records`);
  return { raw: measured.raw, product: measured.product };
}

function figures(name: string, runs: readonly Measured[]): string {
  const rows = RECORDS / median(runs.map((run) => run.seconds));
  const cpu = (median(runs.map((run) => run.cpuSeconds)) * 100_000) / RECORDS;
  const peak = median(runs.map((run) => run.peakMegabytes));
  return `${name}: ${Math.round(rows).toLocaleString('en-US')} rows/s, ${cpu.toFixed(2)} CPU s per 100k, peak ${peak.toFixed(0)} MB`;
}

function report(database: BenchDatabase, test: Case, rounds: readonly Round[]): string {
  const ratios = rounds.map(({ raw, product }) => raw.seconds / product.seconds);
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
  return `${database.name}, ${test.name} (${RECORDS} records, ${rounds.length} rounds)
  ${figures(
    'raw loop',
    rounds.map((of) => of.raw),
  )}
  ${figures(
    'product ',
    rounds.map((of) => of.product),
  )}
  ratio ${median(ratios).toFixed(2)} (${least} to ${most}); floor ${test.floor}, aim ${test.aim}\n`;
}

async function runCase(database: BenchDatabase, test: Case): Promise<void> {
  const shape = test.flat ? ['--generate-flat'] : [];
  const server = await startServer(
    '--generate',
    `content=${RECORDS}`,
    '--pagination',
    'page',
    '--cache',
    '1024',
    ...shape,
  );
  try {
    const rounds: Round[] = [];
    // The first round fills the server's page cache and is not counted; `second` finds its databases filled by it.
    for (let number = 0; number <= ROUNDS; number += 1) rounds.push(await round(test, database, server, number));
    process.stdout.write(report(database, test, rounds.slice(1)));
  } finally {
    server.child.kill();
  }
}

async function runQueries(database: BenchDatabase): Promise<void> {
  const counts = ['analytics', 'content', 'images'].map((name, at) => `${name}=${Math.ceil(RECORDS / 10 ** at)}`);
  const { url, child } = await startServer('--generate', counts.join(','), '--pagination', 'page', '--cache', '1024');
  try {
    const stage = { url, key: KEY, folder, main: path.join(root, 'src/main.ts') };
    process.stdout.write(await benchQueries(database, stage, ROUNDS));
  } finally {
    child.kill();
  }
}

try {
  for (const [name, open] of Object.entries(OPEN_DATABASE)) {
    if (options.database !== undefined && options.database !== name) continue;
    const database = await open(folder);
    try {
      for (const test of CASES)
        if (options.only === undefined || test.name === options.only) await runCase(database, test);
      if (options.only === undefined || options.only === 'queries') await runQueries(database);
    } finally {
      await database.close();
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
