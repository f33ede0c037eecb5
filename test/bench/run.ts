import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type BackfillBench, CASES, runCase } from './backfills.ts';
import { type BenchDatabase, OPEN_DATABASE } from './databases.ts';
import { failed, type Figure, figureLine, losses, type Values, valuesOf } from './figures.ts';
import { benchSizes } from './growth.ts';
import { benchWaiting } from './latency.ts';
import { productMain } from './product.ts';

/** Figures by machine, as `npm run bench -- --save` has found them. */
const FILE = path.join(import.meta.dirname, 'stored-runs.json');

interface StoredRun {
  /** `YYYY-MM-DD`. */
  saved: string;
  figures: Values;
}

type StoredRuns = Readonly<Record<string, StoredRun>>;

/** What figures depend on: processor, cores, Node, and how many records are copied. */
function machineName(records: number): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  return `${model}, ${availableParallelism()} cores, Node ${process.versions.node}, ${records} records`;
}

/** The figures of this machine; null if none are stored. */
function storedFigures(machine: string): StoredRun | null {
  return readRuns()[machine] ?? null;
}

/** Keeps the figures; what was not measured this time stays as it is. */
function storeFigures(machine: string, figures: Values): void {
  const runs = readRuns();
  const saved = new Date().toISOString().slice(0, 10);
  const known = { ...runs[machine]?.figures, ...figures };
  const sorted = Object.fromEntries(Object.entries(known).toSorted(([a], [b]) => a.localeCompare(b)));
  writeFileSync(FILE, `${JSON.stringify({ ...runs, [machine]: { saved, figures: sorted } }, null, 2)}\n`);
}

function readRuns(): StoredRuns {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

/**
 * `npm run bench`: the product, as it is built, against the raw loop, by turns, on the same service and data; then
 * memory and growth by size, and what waiting costs. On SQLite and on Postgres, or with `--database` on one of them. `--only` names one part, see `PARTS`. `--ts` runs the sources instead of the build. At the
 * end all figures with their floors and aims, and which of them have lost a tenth against the stored run of this machine;
 * `--save` stores them, and `--check` ends with 1 where one is below its floor or has lost.
 */
const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '5' },
    sizes: { type: 'string', default: '20000,200000,1000000' },
    database: { type: 'string' },
    only: { type: 'string' },
    ts: { type: 'boolean', default: false },
    save: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
  },
});

const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-bench-'));
const bench: BackfillBench = {
  main: productMain(options.ts),
  folder,
  records: Number(options.records),
  rounds: Number(options.rounds),
};

type Part = (database: BenchDatabase) => Promise<Figure[]>;

/** What can be measured, by its name for `--only`. */
const PARTS: Readonly<Record<string, Part>> = {
  ...Object.fromEntries(CASES.map((test) => [test.name, backfills(test)])),
  memory: (database) => benchSizes(bench, database, options.sizes.split(',').map(Number)),
  waiting: (database) => benchWaiting(bench, database),
};

function backfills(test: (typeof CASES)[number]): Part {
  return async (database) => {
    const { figures, text } = await runCase(bench, database, test);
    process.stdout.write(`${text}\n`);
    return figures;
  };
}

async function runAll(): Promise<Figure[]> {
  const figures: Figure[] = [];
  const parts = Object.entries(PARTS).filter(([name]) => options.only === undefined || options.only === name);
  if (parts.length === 0) throw new Error(`--only: one of ${Object.keys(PARTS).join(', ')}`);
  for (const [name, open] of Object.entries(OPEN_DATABASE)) {
    if (options.database !== undefined && options.database !== name) continue;
    const database = await open(folder);
    try {
      for (const [, part] of parts) figures.push(...(await part(database)));
    } finally {
      await database.close();
    }
  }
  return figures;
}

/** Prints all figures and what has become worse; true if nothing has, and no figure is below its floor. */
function judge(figures: readonly Figure[]): boolean {
  const machine = machineName(bench.records);
  const stored = storedFigures(machine);
  const lost = losses(figures, stored?.figures ?? {});
  const compared =
    stored === null ? `no run of ${machine} is stored` : `against the run of ${stored.saved}, ${machine}`;
  const told = [
    ...figures.map(figureLine),
    '',
    `${compared}: ${lost.length} of the figures lost a tenth or more`,
    ...lost,
  ];
  process.stdout.write(`${told.join('\n')}\n`);
  if (options.save) storeFigures(machine, valuesOf(figures));
  return lost.length === 0 && failed(figures).length === 0;
}

try {
  const isGood = judge(await runAll());
  if (options.check && !isGood) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
