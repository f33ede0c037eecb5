import { reportRows, type ReportRow } from '../../sandbox/service/reports/report-rows.ts';
import type { TestDatabase } from '../../support/databases.ts';
import { pushedClock, type PushedClock } from '../../support/hurried-clock.ts';
import { journey, type Journey } from '../../support/journey.ts';

export interface ReportStage extends Journey {
  clock: PushedClock;
  /** All rows of the report as the service tells them now. */
  rowsNow(): ReportRow[];
}

/** The sandbox's report of traffic from `start` on, on a clock that shows `now` and can be put forward. */
export async function reportStage(
  database: TestDatabase,
  start: string,
  now: string,
  windows: Record<string, unknown> = {},
  service: { windowCap?: number } = {},
): Promise<ReportStage> {
  const clock = pushedClock(now);
  const traffic = { windows: { start, ...windows } };
  const stage = await journey({
    database,
    base: 'content-service-reports',
    sandbox: { report: ['traffic'], reportStart: start, clock, ...service },
    profile: { resources: { content: null, images: null, analytics: null, traffic } },
  });
  const rowsNow = () => reportRows('traffic', { from: start, to: '2999-01-01' }, start, clock.now());
  return { ...stage, clock, rowsNow };
}
