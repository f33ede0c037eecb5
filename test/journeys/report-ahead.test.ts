import { describe, expect, it } from 'vitest';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { STOPPED } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';
import {
  nextDay,
  reportService,
  type ReportService,
  reportStage,
  type ReportStage,
} from '../support/report-service.ts';

const EITHER = eitherDatabase(import.meta.filename);

const FIRST = longOrShort('2026-02-01', '2026-02-18');
const LAST = '2026-03-31';
const CONCURRENCY = 4;
/** Long enough that several ranges are worth asking for while one is written, also on a busy machine. */
const LATENCY_MS = 150;

/** Two months, a range for each day, by a service that takes its time. */
async function slowMonths(
  database: TestDatabase,
  windows: Record<string, unknown> = {},
): Promise<{ stage: ReportStage; reports: ReportService }> {
  const reports = reportService(`${LAST}T06:00:00Z`, { refusesTomorrow: true });
  for (let day = FIRST; day <= LAST; day = nextDay(day))
    for (const page of ['/', '/about']) reports.put(day, page, 'mail', 7);
  const chosen = {
    fields: { id: ['date', 'page'], page: { style: 'cursor', size: 50 } },
    http: { concurrency: CONCURRENCY },
  };
  const stage = await reportStage(database, reports, { start: FIRST, largest: '1d', ...windows }, chosen);
  stage.service.delay = LATENCY_MS;
  return { stage, reports };
}

/** Days of which rows are here, the newest first. */
function daysHere(stage: ReportStage): Promise<string[]> {
  return stage.column<string>('SELECT DISTINCT date FROM report ORDER BY 1 DESC');
}

/** Of a range as it was asked for, `from..to`. */
function daysOf(range: string): number {
  return (Date.parse(range.slice(12)) - Date.parse(range.slice(0, 10))) / 86_400_000 + 1;
}

function daysBack(count: number): string[] {
  return Array.from({ length: count }, (_, back) => nextDay(LAST, -back));
}

describe.for(EITHER)('ranges of reports that are asked for ahead of their turn, on $name', (database) => {
  it('are taken over the newest first, and a stop costs those under way', async () => {
    const { stage, reports } = await slowMonths(database);
    const stop = new AbortController();
    const arrived: number[] = [];
    reports.behaviour.before = () => {
      arrived.push(performance.now());
      if (arrived.length === longOrShort(30, 20)) stop.abort(STOPPED);
    };
    const { status, asked } = await stage.walk('backfill', { signal: stop.signal });
    expect(status).toBe('interrupted');
    // They are under way together: the service takes longer for an answer than until the next ones ask.
    const together = arrived.map((at) => arrived.filter((other) => other >= at && other < at + LATENCY_MS).length);
    expect(Math.max(...together)).toBe(CONCURRENCY);
    const here = await daysHere(stage);
    expect(here).toEqual(daysBack(here.length));
    expect(here.length).toBeGreaterThan(asked.length - 2 * CONCURRENCY);
    delete reports.behaviour.before;
    reports.now += 60_000;
    const again = await stage.walk('backfill');
    expect(again.status).toBe('ok');
    const repeated = new Set(again.asked).intersection(new Set(asked));
    // Those that may still change are asked for in any case.
    expect([...repeated].filter((range) => range < nextDay(LAST, -4)).length).toBeLessThan(2 * CONCURRENCY);
    expect(await stage.unlike()).toEqual([]);
  });

  it('are stored but for the window that the service refuses, which is named and requested again', async () => {
    const { stage, reports } = await slowMonths(database);
    const broken = nextDay(LAST, -20);
    let url = '';
    reports.behaviour.before = ({ search }) => void (url = search);
    reports.behaviour.fails = () => (url.includes(`from=${broken}`) ? 404 : null);
    const { status, warnings } = await stage.walk('backfill');
    expect({ status, warnings }).toMatchObject({ status: 'partial', warnings: [{ code: 'window_unread' }] });
    expect(warnings?.[0]?.message).toContain(broken);
    expect((await daysHere(stage)).length).toBeGreaterThan(daysBack(20).length);
    reports.behaviour.fails = () => null;
    reports.now += 60_000;
    expect(await stage.walk('sync')).toMatchObject({ status: 'ok', mode: 'incremental' });
    expect(await stage.unlike()).toEqual([]);
  });

  it('are made anew where one shows that all of their size are too large', async () => {
    const { stage, reports } = await slowMonths(database, { largest: '4d', too_large: { status: [413] } });
    // What is older lies in an archive that answers for two days at most.
    reports.behaviour.refuses = (from, days) => (from < '2026-03-01' && days > 2 ? 413 : null);
    const { status, asked } = await stage.walk('backfill');
    expect(status).toBe('ok');
    expect(asked.filter((range) => range < '2026-03-01' && daysOf(range) > 2).length).toBeLessThanOrEqual(
      CONCURRENCY + 1,
    );
    expect(await stage.unlike()).toEqual([]);
  });
});
