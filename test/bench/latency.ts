import type { RequestEntry } from '../sandbox/service/request-log.ts';
import type { BackfillBench } from './backfills.ts';
import type { BenchDatabase } from './databases.ts';
import type { Figure } from './figures.ts';
import { measure, type Measured } from './measure.ts';
import { backfillOf, expectRecords, KEY, startService } from './product.ts';
import { startSandboxProcess } from './staged.ts';

/** Where answers take their time: 1,200 pages, as many under way as is usual. */
const LATENCY = { ms: 50, page: 100, records: 120_000, inFlight: 8 };
/** Where there is a limit that nobody tells. */
const LIMIT = { perSecond: 50, page: 10, records: 10_000, reached: 0.85 };
const BURST = 5;
const WINDOW_MS = 1_000;

/** What waiting costs beside the service's own: by latency, and until a limit is found that no header tells. */
export async function benchWaiting(bench: BackfillBench, database: BenchDatabase): Promise<Figure[]> {
  return [await againstIdeal(bench, database), await untilLimit(bench, database)];
}

async function againstIdeal(bench: BackfillBench, database: BenchDatabase): Promise<Figure> {
  const { ms, page, records, inFlight } = LATENCY;
  const generate = { content: records };
  const service = await startService({ generate, pagination: 'page', cache: 2 ** 30, latency: ms });
  try {
    // The first fills the service's pages.
    await loadOnce(bench, database, { url: service.url, page, records });
    const { seconds } = await loadOnce(bench, database, { url: service.url, page, records });
    const value = seconds / (((records / page) * ms) / 1_000 / inFlight);
    const name = `${database.name} ${ms} ms latency, pages of ${page}, ${inFlight} in flight, against the ideal`;
    return { name, value, unit: '×', better: 'less', floor: 1.15, aim: 1.1 };
  } finally {
    service.stop();
  }
}

async function untilLimit(bench: BackfillBench, database: BenchDatabase): Promise<Figure> {
  const { perSecond, page, records, reached } = LIMIT;
  await using stack = new AsyncDisposableStack();
  const sandbox = await startSandboxProcess(
    {
      apiKey: KEY,
      generate: { content: records },
      pagination: 'page',
      rate: perSecond,
      burst: BURST,
      rateHeaders: 'none',
    },
    stack,
  );
  await loadOnce(bench, database, { url: sandbox.url, page, records });
  const value = secondsUntil(await sandbox.requests(), reached * perSecond);
  const name = `${database.name} until ${reached * 100} % of an unknown limit are used`;
  return { name, value, unit: 's', better: 'less', floor: 10, aim: 5 };
}

/** Seconds from the first request to the end of the first second with so many answers; NaN if there is none. */
function secondsUntil(requests: readonly RequestEntry[], answers: number): number {
  const answered = requests.filter(({ status }) => status === 200).map(({ at }) => at);
  const [first = Number.NaN] = answered;
  // What may come at once at the beginning is no pace.
  const later = answered.filter((at) => at > first + WINDOW_MS);
  const found = later.find((at) => later.filter((one) => one > at - WINDOW_MS && one <= at).length >= answers);
  return found === undefined ? Number.NaN : (found - first) / 1_000;
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
