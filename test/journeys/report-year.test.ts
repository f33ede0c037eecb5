import { expect, it, onTestFinished } from 'vitest';
import { USUAL } from '../support/databases.ts';
import { clockShowing } from '../support/hurried-clock.ts';
import { longOrShort } from '../support/length.ts';
import { randomFrom } from '../support/random.ts';
import { nextDay, reportService, reportStage } from '../support/report-service.ts';

const DAY = 86_400_000;
/** Four weeks show it as well: what a day costs does not depend on how many there were. */
const DAYS = longOrShort(365, 28);
const ASKED = {
  command: 'sync',
  resources: ['report'],
  restart: false,
  signal: new AbortController().signal,
  watcher: { started: () => undefined, page: () => undefined, ended: () => undefined },
} as const;

it('a year of daily runs with 72 h of restatement costs at most the changed windows and a tenth in requests', async () => {
  const random = randomFrom(20_260);
  const reports = reportService('2025-01-01T05:00:00Z');
  const stage = await reportStage(USUAL, reports, { start: '2025-01-01' });
  const app = await stage.open(clockShowing(() => reports.now));
  onTestFinished(() => app.close());
  let changed = 0;
  for (let day = 0; day < DAYS; day += 1) {
    const today = new Date(reports.now).toISOString().slice(0, 10);
    reports.put(today, '/', 'search', random.whole(1, 100));
    // Of the days that may still change one in three does.
    for (let back = 1; back <= 3; back += 1) {
      const before = nextDay(today, -back);
      if (before >= '2025-01-01' && random.chance(1 / 3)) reports.put(before, '/', 'search', random.whole(1, 100));
    }
    const { resources } = await app.sync(ASKED);
    expect(resources[0]?.status).toBe('ok');
    changed += (resources[0]?.inserted ?? 0) + (resources[0]?.updated ?? 0);
    reports.now += DAY;
  }
  expect(await stage.unlike()).toEqual([]);
  expect(await stage.windows()).toHaveLength(DAYS + 1);
  const asked = stage.service.requests.length;
  expect(asked).toBeLessThanOrEqual(1.1 * changed);
  // A request a day: the days that may have changed are asked for as one range.
  expect(asked).toBe(DAYS);
}, 120_000);
