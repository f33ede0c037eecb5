import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { BackfillBench } from './backfills.ts';
import type { BenchDatabase } from './databases.ts';
import type { Figure } from './figures.ts';
import { measure, median, type Measured } from './measure.ts';
import { backfillOf, expectRecords, KEY } from './product.ts';

const SMALL = 20_000;
const CHANGES = 1_000;
const ROUNDS = 3;

/** A service that changes records when it is told to. */
interface ChangingService {
  url: string;
  change(records: number): Promise<void>;
  stop(): void;
}

interface Copy {
  records: number;
  service: ChangingService;
  setting: string;
}

interface Cost {
  cpu: number;
  seconds: number;
}

/**
 * What the same changes cost on a large table against a small one, and what a second walk of all of it costs per
 * record, where the service answers as fast on both.
 */
export async function benchChanges(bench: BackfillBench, database: BenchDatabase): Promise<Figure[]> {
  const stack = new AsyncDisposableStack();
  try {
    const copies: Copy[] = [];
    for (const records of [SMALL, bench.records]) copies.push(await copied(bench, database, records, stack));
    const costs: Cost[][] = copies.map(() => []);
    // The first shows what is new to it, such as statistics that are made once.
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const [at, copy] of copies.entries()) {
        const cost = await changesOf(bench, database, copy);
        if (round > 0) costs[at]?.push(cost);
      }
    }
    const [small = [], large = []] = costs;
    const of = `${CHANGES} changes on ${bench.records} rows against ${SMALL}`;
    return [
      figure(`${database.name} CPU of ${of}`, ratio(small, large, 'cpu'), 1.1),
      { ...figure(`${database.name} wall of ${of}`, ratio(small, large, 'seconds'), 1.3), isLoose: true },
    ];
  } finally {
    await stack.disposeAsync();
  }
}

function figure(name: string, value: number, floor: number): Figure {
  return { name, value, unit: '×', better: 'less', floor, aim: 1 };
}

function ratio(small: readonly Cost[], large: readonly Cost[], of: keyof Cost): number {
  return median(large.map((cost) => cost[of])) / median(small.map((cost) => cost[of]));
}

async function copied(
  bench: BackfillBench,
  database: BenchDatabase,
  records: number,
  stack: AsyncDisposableStack,
): Promise<Copy> {
  const name = `changes_${records}`;
  const service = await startChanging(records);
  stack.defer(() => service.stop());
  const { setting } = await database.make(name);
  stack.defer(() => database.drop(name));
  const { stdout } = await run(bench, database, { records, service, setting }, 'backfill');
  expectRecords(stdout, records);
  return { records, service, setting };
}

async function changesOf(bench: BackfillBench, database: BenchDatabase, copy: Copy): Promise<Cost> {
  await copy.service.change(CHANGES);
  const { stdout, cpuSeconds, besideSeconds, seconds } = await run(bench, database, copy, 'sync');
  const { resources }: { resources: { mode: string; updated: number }[] } = JSON.parse(stdout);
  const [report] = resources;
  if (report?.mode !== 'incremental' || report.updated !== CHANGES) throw new Error(`not what was changed: ${stdout}`);
  return { cpu: cpuSeconds + (besideSeconds['postgres'] ?? 0), seconds };
}

async function run(
  { main, folder }: BackfillBench,
  database: BenchDatabase,
  { service, setting }: Copy,
  command: 'backfill' | 'sync',
): Promise<Measured> {
  await database.settle();
  const { pid } = database;
  const args = backfillOf(main, folder, { url: service.url, warehouse: setting, command });
  return measure(args, pid === undefined ? {} : { beside: { postgres: pid } });
}

async function startChanging(records: number): Promise<ChangingService> {
  const child = fork(path.join(import.meta.dirname, 'changing-service.ts'), [String(records), KEY]);
  const [url]: unknown[] = await once(child, 'message');
  return {
    url: String(url),
    change: async (changed) => {
      const done = once(child, 'message');
      child.send(changed);
      await done;
    },
    stop: () => void child.kill(),
  };
}
