import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { measure, median, type Measured } from './measure.ts';

/**
 * `npm run bench`: the product's backfill against the raw loop, interleaved, on the same server and data. Ratios are
 * rows per second of the product divided by the raw loop's in the same round; the figure is their median.
 */
const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '5' },
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

function writeConfig(server: Server, history: Case['history'], database: string): string {
  const profile = path.join(folder, 'bench.yaml');
  writeFileSync(
    profile,
    `extends: content-service-page\nresources:\n  images: null\n  analytics: null\n  content:\n    history: ${history}\n    page: { size: 500 }\n`,
  );
  const config = path.join(folder, 'config.yaml');
  writeFileSync(
    config,
    `warehouse: sqlite:${database}\nsources:\n  bench:\n    base_url: ${server.url}\n    auth: { type: api_key, key: ${KEY} }\n    profile: ${profile}\n    rate: { share: 1 }\n`,
  );
  return config;
}

async function round(test: Case, server: Server, number: number): Promise<{ raw: Measured; product: Measured }> {
  const database = (name: string) =>
    path.join(folder, `${test.again ? 'default' : test.name}-${name}-${test.again ? 0 : number}.db`);
  const rawLoop = [path.join(root, 'test/bench/raw-loop.ts'), server.url, KEY, database('raw'), String(RECORDS)];
  const config = writeConfig(server, test.history, database('product'));
  const backfill = [path.join(root, 'src/main.ts'), 'backfill', '--json', '--config', config, '--log-level', 'warn'];
  // The order changes from round to round, so that a machine that slows down slows both.
  const productFirst = number % 2 === 1;
  const early = productFirst ? await measure(backfill) : null;
  const raw = await measure(rawLoop);
  const product = early ?? (await measure(backfill));
  const { resources }: { resources: { records: number }[] } = JSON.parse(product.stdout);
  const [report] = resources;
  if (report?.records !== RECORDS) throw new Error(`the product read ${report?.records} of ${RECORDS} records`);
  return { raw, product };
}

function figures(name: string, runs: readonly Measured[]): string {
  const rows = RECORDS / median(runs.map((run) => run.seconds));
  const cpu = (median(runs.map((run) => run.cpuSeconds)) * 100_000) / RECORDS;
  const peak = median(runs.map((run) => run.peakMegabytes));
  return `${name}: ${Math.round(rows).toLocaleString('en-US')} rows/s, ${cpu.toFixed(2)} CPU s per 100k, peak ${peak.toFixed(0)} MB`;
}

try {
  for (const test of CASES.filter(({ name }) => options.only === undefined || name === options.only)) {
    const server = await startServer(
      '--generate',
      `content=${RECORDS}`,
      '--pagination',
      'page',
      '--cache',
      '1024',
      ...(test.flat ? ['--generate-flat'] : []),
    );
    try {
      const rounds: { raw: Measured; product: Measured }[] = [];
      // The first round fills the server's page cache and is not counted; `second` finds its databases filled by it.
      for (let number = 0; number <= ROUNDS; number += 1) rounds.push(await round(test, server, number));
      const counted = rounds.slice(1);
      const ratios = counted.map(({ raw, product }) => raw.seconds / product.seconds);
      process.stdout.write(
        `${test.name} (${RECORDS} records, ${ROUNDS} rounds)\n` +
          `  ${figures(
            'raw loop',
            counted.map(({ raw }) => raw),
          )}\n` +
          `  ${figures(
            'product ',
            counted.map(({ product }) => product),
          )}\n` +
          `  ratio ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}); floor ${test.floor}, aim ${test.aim}\n`,
      );
    } finally {
      server.child.kill();
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
