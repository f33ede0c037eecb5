import type { BackfillBench } from './backfills.ts';
import type { BenchDatabase } from './databases.ts';
import type { Figure } from './figures.ts';
import { measure, type Measured } from './measure.ts';
import { backfillOf, expectRecords, startPosts, type Service } from './product.ts';

/** Resident memory at the largest size, in megabytes. */
const MEMORY = { floor: 250, aim: 180 };
/** CPU per record at the largest size against that at the smallest. */
const GROWTH = { floor: 1.1, aim: 1 };

/** First backfills of more and more records: the memory of each, and what a record costs at last against at first. */
export async function benchSizes(
  bench: BackfillBench,
  database: BenchDatabase,
  sizes: readonly number[],
): Promise<Figure[]> {
  const figures: Figure[] = [];
  const perRecord: number[] = [];
  for (const records of sizes) {
    const service = await startPosts(records);
    try {
      const isLast = records === sizes.at(-1);
      const usual = await loadOnce(bench, database, { service, records });
      perRecord.push(usual.cpuSeconds / records);
      figures.push(memoryFigure(`${database.name} peak memory at ${records}`, usual, isLast ? MEMORY : {}));
    } finally {
      service.stop();
    }
  }
  const value = (perRecord.at(-1) ?? Number.NaN) / (perRecord[0] ?? Number.NaN);
  const name = `${database.name} CPU per record at ${sizes.at(-1)} against ${sizes[0]}`;
  return [...figures, { name, value, unit: '×', better: 'less', ...GROWTH }];
}

interface Load {
  service: Service;
  records: number;
}

async function loadOnce(bench: BackfillBench, database: BenchDatabase, load: Load): Promise<Measured> {
  const { service, records } = load;
  const { setting } = await database.make('sizes');
  await database.settle();
  const measured = await measure(backfillOf(bench.main, bench.folder, { url: service.url, warehouse: setting }));
  await database.drop('sizes');
  expectRecords(measured.stdout, records);
  return measured;
}

function memoryFigure(name: string, { peakMegabytes }: Measured, wanted: Pick<Figure, 'floor' | 'aim'>): Figure {
  return { name, value: peakMegabytes, unit: 'MB', better: 'less', ...wanted };
}
