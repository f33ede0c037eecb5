import path from 'node:path';
import type { BenchDatabase } from './databases.ts';
import type { Figure } from './figures.ts';
import { measure, median, type Measured } from './measure.ts';
import { backfillOf, expectRecords, KEY, startPosts, type Service } from './product.ts';

/** Two numbers to reach, by the name of a database. */
type Wanted = Readonly<Record<string, readonly [floor: number, aim: number]>>;

export interface Case {
  name: string;
  /** Rows per second of the product divided by the raw loop's in the same round. */
  ratio: Wanted;
  /** Seconds of the product for 100,000 records. */
  cpu: Wanted;
  /** True: both load the same data into the database of the round before. */
  isAgain: boolean;
}

export const CASES: readonly Case[] = [
  {
    name: 'default',
    ratio: { sqlite: [0.6, 0.75], postgres: [0.45, 0.6] },
    cpu: { sqlite: [3.2, 2], postgres: [3.2, 2] },
    isAgain: false,
  },
  {
    name: 'second',
    ratio: { sqlite: [0.85, 1], postgres: [0.75, 0.9] },
    cpu: {},
    isAgain: true,
  },
];

export interface BackfillBench {
  /** The file that starts the product. */
  main: string;
  folder: string;
  records: number;
  rounds: number;
}

interface Round {
  raw: Measured;
  product: Measured;
}

/** The figures of a case, and what is printed of it besides. */
export interface CaseResult {
  figures: Figure[];
  text: string;
}

/** The product's backfill against the raw loop, by turns, on the same service and data. */
export async function runCase(bench: BackfillBench, database: BenchDatabase, test: Case): Promise<CaseResult> {
  const service = await startPosts(bench.records);
  try {
    const rounds: Round[] = [];
    // The first round fills the service's pages and is not counted; `second` finds its databases filled by it.
    for (let number = 0; number <= bench.rounds; number += 1) {
      rounds.push(await runRound(bench, database, test, service, number));
    }
    return caseResult(bench, `${database.name} ${test.name}`, { database, test, rounds: rounds.slice(1) });
  } finally {
    service.stop();
  }
}

async function runRound(
  bench: BackfillBench,
  database: BenchDatabase,
  test: Case,
  service: Service,
  number: number,
): Promise<Round> {
  const names = ['raw', 'product'].map((name) => (test.isAgain ? `${name}_again` : `${name}_${number}`));
  const [raw, product] = await Promise.all(names.map((name) => database.make(name)));
  const both = {
    raw: [path.join(import.meta.dirname, database.rawLoop), service.url, KEY, raw?.raw ?? '', String(bench.records)],
    product: backfillOf(bench.main, bench.folder, { url: service.url, warehouse: product?.setting ?? '' }),
  };
  const beside = { service: service.pid, ...(database.pid === undefined ? {} : { database: database.pid }) };
  const measured: Partial<Round> = {};
  // The order changes from round to round, so that a machine that slows down slows both.
  for (const side of number % 2 === 1 ? (['product', 'raw'] as const) : (['raw', 'product'] as const)) {
    await database.settle();
    measured[side] = await measure(both[side], { beside });
  }
  if (!test.isAgain) await Promise.all(names.map((name) => database.drop(name)));
  if (measured.raw === undefined || measured.product === undefined) throw new Error('a side was not measured');
  expectRecords(measured.product.stdout, bench.records);
  return { raw: measured.raw, product: measured.product };
}

interface CaseRounds {
  database: BenchDatabase;
  test: Case;
  rounds: readonly Round[];
}

function caseResult(bench: BackfillBench, name: string, { database, test, rounds }: CaseRounds): CaseResult {
  const { records } = bench;
  const ratios = rounds.map(({ raw, product }) => raw.seconds / product.seconds);
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
  const products = rounds.map(({ product }) => product);
  const per100k = (of: (run: Measured) => number): number => (median(products.map(of)) * 100_000) / records;
  const [ratioFloor, ratioAim] = test.ratio[database.name] ?? [];
  const [cpuFloor, cpuAim] = test.cpu[database.name] ?? [];
  const cpu = per100k((run) => run.cpuSeconds);
  const figures: Figure[] = [
    { name: `${name} ratio`, value: median(ratios), better: 'more', ...wanted(ratioFloor, ratioAim) },
    { name: `${name} CPU per 100,000`, value: cpu, unit: 's', better: 'less', ...wanted(cpuFloor, cpuAim) },
    {
      name: `${name} peak memory`,
      value: median(products.map((run) => run.peakMegabytes)),
      unit: 'MB',
      better: 'less',
    },
  ];
  if (database.pid !== undefined) {
    const value = per100k((run) => run.besideSeconds['database'] ?? Number.NaN);
    figures.push({ name: `${name} CPU of the database per 100,000`, value, unit: 's', better: 'less' });
  }
  const sides = ['raw', 'product'] as const;
  const lines = sides.map(
    (side) =>
      `  ${side.padEnd(7)}  ${sideText(
        rounds.map((round) => round[side]),
        records,
      )}`,
  );
  const head = `${name} (${records} records, ${rounds.length} rounds, ratio ${least} to ${most})`;
  return { figures, text: `${[head, ...lines].join('\n')}\n` };
}

/** For a figure, without what is not wanted of it. */
export function wanted(floor: number | undefined, aim: number | undefined): Pick<Figure, 'floor' | 'aim'> {
  return { ...(floor === undefined ? {} : { floor }), ...(aim === undefined ? {} : { aim }) };
}

function sideText(runs: readonly Measured[], records: number): string {
  const per100k = (of: (run: Measured) => number): string => ((median(runs.map(of)) * 100_000) / records).toFixed(2);
  const rows = Math.round(records / median(runs.map((run) => run.seconds))).toLocaleString('en-US');
  const beside = Object.keys(runs[0]?.besideSeconds ?? {}).map(
    (name) => `${per100k((run) => run.besideSeconds[name] ?? Number.NaN)} of the ${name}`,
  );
  const cpu = [per100k((run) => run.cpuSeconds), ...beside].join(' + ');
  const peak = median(runs.map((run) => run.peakMegabytes)).toFixed(0);
  return `${rows} rows/s, ${cpu} CPU s per 100,000, peak ${peak} MB`;
}
