import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { wanted, type BackfillBench } from './backfills.ts';
import type { BenchDatabase } from './databases.ts';
import type { Figure } from './figures.ts';
import { measure, median, type Measured } from './measure.ts';
import { KEY, startService } from './product.ts';

/** A file for so many of the records that the bench is about: 40,000 of 200,000. */
const RECORDS_PER_FILE = 5;
const BYTES = 4_096;
/** The least part of the raw loop's speed, and the one to reach. */
const RATIO = [0.7, 0.9] as const;

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
);

/** What a run with all files to fetch costs against a raw fetch-and-write loop, by turns, on the same service. */
export async function benchFiles(bench: BackfillBench, database: BenchDatabase): Promise<Figure[]> {
  const data = path.join(bench.folder, 'pictures');
  const files = Math.ceil(bench.records / RECORDS_PER_FILE);
  makePictures(data, files);
  const service = await startService('--data', data, '--cache', '64');
  const rounds: { raw: Measured; product: Measured }[] = [];
  try {
    // The first round warms up the service and is not counted.
    for (let number = 0; number <= bench.rounds; number += 1) {
      const round = await runRound(bench, database, { url: service.url, files }, number);
      if (number > 0) rounds.push(round);
    }
  } finally {
    service.stop();
    rmSync(data, { recursive: true });
  }
  return figuresOf(database.name, rounds, files);
}

/** Distinct pictures of a pixel, each with something behind its end. */
function makePictures(folder: string, files: number): void {
  mkdirSync(path.join(folder, 'files'), { recursive: true });
  const records: string[] = [];
  for (let n = 0; n < files; n += 1) {
    const bytes = Buffer.concat([PIXEL, Buffer.alloc(BYTES - PIXEL.length, `${n} `)]);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const updated_at = new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString();
    writeFileSync(path.join(folder, 'files', `img_${n}.png`), bytes);
    records.push(JSON.stringify({ id: `img_${n}`, has_file: true, byte_size: bytes.length, sha256, updated_at }));
  }
  writeFileSync(path.join(folder, 'images.ndjson'), `${records.join('\n')}\n`);
  for (const other of ['content', 'analytics']) writeFileSync(path.join(folder, `${other}.ndjson`), '');
}

async function runRound(
  { main, folder }: BackfillBench,
  database: BenchDatabase,
  { url, files }: { url: string; files: number },
  number: number,
): Promise<{ raw: Measured; product: Measured }> {
  const name = `files_${number}`;
  const { setting } = await database.make(name);
  const stores = { raw: path.join(folder, `raw_${number}`), product: path.join(folder, `store_${number}`) };
  // The rows are here before: what is measured is the files.
  await measure(commandOf({ main, folder, url, setting }));
  const runs = {
    raw: () => measure([path.join(import.meta.dirname, 'raw-files.ts'), url, KEY, stores.raw, String(files)]),
    product: () => measure(commandOf({ main, folder, url, setting, store: stores.product })),
  };
  const measured: Partial<Record<keyof typeof runs, Measured>> = {};
  for (const side of number % 2 === 1 ? (['product', 'raw'] as const) : (['raw', 'product'] as const)) {
    await database.settle();
    measured[side] = await runs[side]();
    rmSync(stores[side], { recursive: true });
  }
  await database.drop(name);
  const { raw, product } = measured;
  if (raw === undefined || product === undefined) throw new Error('a side was not measured');
  expectFiles(product.stdout, files);
  return { raw, product };
}

interface Run {
  main: string;
  folder: string;
  url: string;
  setting: string;
  /** Where files go; none are fetched if absent. */
  store?: string;
}

/** Arguments of a run of the images; writes its config and profile. */
function commandOf({ main, folder, url, setting, store }: Run): string[] {
  const profile = path.join(folder, 'files-bench.yaml');
  // JSON is YAML.
  const resources = { content: null, analytics: null, images: { page: { size: 500 } } };
  writeFileSync(profile, JSON.stringify({ extends: 'content-service', resources, relations: {} }));
  const config = path.join(folder, 'files-config.yaml');
  const files = store === undefined ? {} : { files: { store: `disk:${store}` } };
  const auth = { type: 'api_key', key: KEY };
  const source = { base_url: url, auth, profile, rate: { share: 1 }, ...files };
  writeFileSync(config, JSON.stringify({ warehouse: setting, sources: { bench: source } }));
  return [main, 'sync', '--json', '--config', config, '--log-level', 'warn'];
}

function expectFiles(stdout: string, files: number): void {
  const { resources }: { resources: { files?: { fetched: number } }[] } = JSON.parse(stdout);
  const fetched = resources[0]?.files?.fetched;
  if (fetched !== files) throw new Error(`the product fetched ${fetched} of ${files} files`);
}

function figuresOf(name: string, rounds: readonly { raw: Measured; product: Measured }[], files: number): Figure[] {
  const of = (value: (round: (typeof rounds)[number]) => number): number => median(rounds.map(value));
  const perThousand = 1_000 / files;
  return [
    {
      name: `${name} files ratio`,
      value: of(({ raw, product }) => raw.seconds / product.seconds),
      better: 'more',
      ...wanted(...RATIO),
    },
    {
      name: `${name} files CPU per 1,000`,
      value: of(({ product }) => product.cpuSeconds * perThousand),
      unit: 's',
      better: 'less',
    },
    {
      name: `${name} files CPU of the raw loop per 1,000`,
      value: of(({ raw }) => raw.cpuSeconds * perThousand),
      unit: 's',
      better: 'less',
    },
    {
      name: `${name} files peak memory`,
      value: of(({ product }) => product.peakMegabytes),
      unit: 'MB',
      better: 'less',
    },
  ];
}
