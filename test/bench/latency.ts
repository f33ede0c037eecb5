import type { BackfillBench } from './backfills.ts';
import type { BenchDatabase } from './databases.ts';
import type { Figure } from './figures.ts';
import { measure, type Measured } from './measure.ts';
import { backfillOf, expectRecords, startService } from './product.ts';

/** Where answers take their time: 1,200 pages, as many under way as is usual. */
const LATENCY = { ms: 50, page: 100, records: 120_000, inFlight: 8 };
/** What waiting costs beside the service's own. */
export async function benchWaiting(bench: BackfillBench, database: BenchDatabase): Promise<Figure[]> {
  const { ms, page, records, inFlight } = LATENCY;
  const generate = { content: records };
  const service = await startService({ generate, pagination: 'page', cache: 2 ** 30, latency: ms });
  try {
    // The first fills the service's pages.
    await loadOnce(bench, database, { url: service.url, page, records });
    const { seconds } = await loadOnce(bench, database, { url: service.url, page, records });
    const value = seconds / (((records / page) * ms) / 1_000 / inFlight);
    const name = `${database.name} ${ms} ms latency, pages of ${page}, ${inFlight} in flight, against the ideal`;
    return [{ name, value, unit: '×', better: 'less', floor: 1.15, aim: 1.1 }];
  } finally {
    service.stop();
  }
}

interface Load {
  url: string;
  page: number;
  records: number;
}

async function loadOnce(bench: BackfillBench, database: BenchDatabase, load: Load): Promise<Measured> {
  const { setting } = await database.make('waiting');
  const { url, page, records } = load;
  const measured = await measure(backfillOf(bench.main, bench.folder, { url, warehouse: setting, page }));
  await database.drop('waiting');
  expectRecords(measured.stdout, records);
  return measured;
}
