import { createRateLimiter } from '../../../src/http/rate-limit/rate-limiter.ts';
import type { Lane } from '../../../src/model/vocabulary.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { rateDialectSchema, type RateDialect } from '../../../src/config/profile/rate-dialect.ts';
import { openCoordination } from '../../../src/database/databases.ts';
import { readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';

/** What a process asks of a service, as fast as the budget that it shares with others lets it. */
export interface Asking {
  warehouse: string;
  url: string;
  apiKey: string;
  lane: Lane;
  /** How many requests want to be under way at once. */
  workers: number;
  concurrency: number;
  forMs: number;
}

const asking: Asking = JSON.parse(process.argv[2] ?? '{}');
const coordination = await openCoordination(asking.warehouse, systemClock);
if (coordination === null) throw new Error('a Postgres is needed');
const statements: number[] = [];
const timed = async <T>(work: Promise<T>): Promise<T> => {
  const start = performance.now();
  const result = await work;
  statements.push(performance.now() - start);
  return result;
};
const rateLimiter = createRateLimiter({
  clock: systemClock,
  dialect: rateDialectSchema.parse('auto'),
  share: 1,
  concurrency: asking.concurrency,
  maxWaitMs: 60_000,
  shared: {
    read: () => timed(coordination.readBudget('account')),
    swap: (version, state) => timed(coordination.swapBudget('account', version, state)),
  },
});

async function request(dialect: RateDialect) {
  const response = await fetch(asking.url, { headers: { authorization: `Bearer ${asking.apiKey}` } });
  const receivedAt = Date.now();
  await response.arrayBuffer();
  const { status } = response;
  const headers = Object.fromEntries(response.headers);
  const limits = readAnswerLimits({ headers, receivedAt }, dialect);
  const facts = { limits, receivedAt, limited: status === 429 };
  return { result: status, facts };
}

process.stdout.write('ready\n');
const counts = { served: 0, limited: 0 };
const end = AbortSignal.timeout(asking.forMs);
const ask = async (): Promise<void> => {
  while (!end.aborted) {
    const status = await rateLimiter.run(asking.lane, request, end).catch(() => null);
    if (status === 200) counts.served += 1;
    if (status === 429) counts.limited += 1;
  }
};
await Promise.all(Array.from({ length: asking.workers }, ask));
await rateLimiter.close();
await coordination.close();
const sorted = statements.toSorted((a, b) => a - b);
const quantile = (part: number): number => Math.round((sorted[Math.floor(sorted.length * part)] ?? 0) * 10) / 10;
const figures = { ...counts, statements: sorted.length, p50: quantile(0.5), p95: quantile(0.95) };
process.stdout.write(`${JSON.stringify(figures)}\n`);
