import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type BackfillBench, CASES, runCase } from './backfills.ts';
import { type BenchDatabase, OPEN_DATABASE } from './databases.ts';
import { failed, type Figure, figureLine, figureTable } from './figures.ts';
import { benchSizes } from './growth.ts';
import { benchWaiting } from './latency.ts';
import { productMain } from './product.ts';

/**
 * `npm run bench`: the product, as it is built, against the raw loop, by turns, on the same service and data; then
 * memory and growth by size, and what waiting costs. On SQLite and on Postgres, or with `--database` on one of them.
 * `--only` names one part, see `PARTS`. `--ts` runs the sources instead of the build. It prints all figures with their
 * floors and aims; `--write` also puts them into RESULTS.md, `--check` ends with 1 where one is below its floor.
 */
const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '5' },
    sizes: { type: 'string', default: '20000,200000,1000000' },
    database: { type: 'string' },
    only: { type: 'string' },
    ts: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
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

/** Replaces the section of the last run. */
function writeResults(figures: readonly Figure[]): void {
  const file = path.join(import.meta.dirname, 'RESULTS.md');
  const [before = '', after = ''] = readFileSync(file, 'utf8')
    .split(/<!-- (?:begin|end) -->/)
    .filter((_, at) => at !== 1);
  const title = `${new Date().toISOString().slice(0, 10)}: ${bench.records} records, ${bench.rounds} rounds, Node ${process.versions.node}`;
  writeFileSync(file, `${before}<!-- begin -->\n\n${title}\n\n${figureTable(figures)}\n\n<!-- end -->${after}`);
}

try {
  const figures = await runAll();
  if (options.write) writeResults(figures);
  process.stdout.write(`${figures.map(figureLine).join('\n')}\n`);
  if (options.check && failed(figures).length > 0) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
