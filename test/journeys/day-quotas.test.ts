import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { exitCodeOfStatus } from '../../src/cli/command/exit-code.ts';
import { timestampMs } from '../../src/model/timestamp-text.ts';
import type { Reply } from '../extract/listing-server.ts';
import { eitherDatabase, SQLITE, type TestDatabase } from '../support/databases.ts';
import { pushedClock } from '../support/hurried-clock.ts';
import { ownService, type OwnService } from '../support/own-service.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LIMIT = 40;
const PAGES = 90;

/** A time of day that no test runs into, as the profile writes it: twelve hours from now. */
const reset = new Date(Date.now() + 12 * HOUR).toISOString().slice(11, 16);
const quota = `${LIMIT}/day ${reset}`;

/** A long listing, which shows what has changed when it is asked for that; one request more than the quota is refused. */
async function quotaStage(
  database: TestDatabase,
  days: { counts: number[] },
  quotas: readonly unknown[],
): Promise<OwnService> {
  const respond = (url: URL): Reply => {
    const today = days.counts.length - 1;
    days.counts[today] = (days.counts[today] ?? 0) + 1;
    if ((days.counts[today] ?? 0) > LIMIT) return { status: 429, headers: { 'retry-after': '43200' } };
    if (url.searchParams.has('since')) return { body: { data: [], next_cursor: null } };
    const at = Number(url.searchParams.get('cursor') ?? 1);
    const updated_at = new Date(Date.UTC(2026, 0, 1, 0, at)).toISOString();
    return { body: { data: [{ id: at, updated_at }], next_cursor: at < PAGES ? String(at + 1) : null } };
  };
  const report = {
    path: '/report',
    page: { style: 'cursor' },
    updated: 'updated_at',
    incremental: { param: 'since' },
    accept: ['end', 'filter', 'item'],
    item: null,
  };
  const stage = await ownService(database, {}, respond, { rate: { share: 1 } });
  const resources = { content: null, images: null, analytics: null, report };
  stage.setProfile({ rate_limit: { base: 'none', quotas }, resources });
  return stage;
}

const told = z.object({
  quotas: z.array(z.object({ name: z.string(), limit: z.number(), used: z.number(), left: z.number() })),
});
const forecast = z.object({ quotas: z.array(z.looseObject({ name: z.string(), left: z.number() })) });

describe.for(eitherDatabase(import.meta.filename))('a quota by day, on $name', (database) => {
  it('puts a backfill off, sends nothing before it may go on, and leaves some to what is live', async () => {
    const days = { counts: [0] };
    const stage = await quotaStage(database, days, [{ limit: `${LIMIT}/day`, reset }]);
    const report = await stage.run('backfill');
    expect([report.status, exitCodeOfStatus(report.status)]).toEqual(['deferred', 4]);
    const used = days.counts[0] ?? 0;
    expect(used).toBeGreaterThan(LIMIT / 2);
    expect(used).toBeLessThanOrEqual(0.9 * LIMIT);
    const due = await stage.read((db) => db.prepare<[], string>('SELECT due_at FROM _sync_checkpoints').pluck().get());
    expect(timestampMs(due ?? '') - Date.now()).toBeGreaterThan(15 * 60_000);
    expect(timestampMs(due ?? '') - Date.now()).toBeLessThan(12.1 * HOUR);

    expect((await stage.run('backfill')).status).toBe('deferred');
    expect((await stage.run('backfill')).status).toBe('deferred');
    expect(days.counts).toEqual([used]);

    const app = await stage.open();
    await app.governor.run('refetch', () => Promise.resolve({ result: null, facts: null }));
    await app.close();
    const status = told.parse(JSON.parse((await stage.command('status', '--json')).stdout));
    expect(status.quotas).toEqual([
      expect.objectContaining({ name: quota, limit: LIMIT, used: used + 1, left: LIMIT - used - 1 }),
    ]);
    expect((await stage.command('status')).stdout).toContain(`quota ${quota}: ${used + 1} of ${LIMIT} used`);
    const plan = forecast.parse(JSON.parse((await stage.command('plan', 'backfill', '--json')).stdout));
    expect(plan.quotas).toEqual([expect.objectContaining({ name: quota, limit: LIMIT, period_seconds: 86_400 })]);
  });
});

describe('a quota by day, on sqlite', () => {
  it('is used day after day, and never exceeded, until all is copied', async () => {
    const days = { counts: [0] };
    const stage = await quotaStage(SQLITE, days, [`${LIMIT}/day`]);
    const clock = pushedClock('2026-03-01T00:00:30.000Z', 50);
    let status = 'deferred';
    for (let runs = 0; status === 'deferred' && runs < 200; runs += 1) {
      status = (await stage.run('backfill', { clock })).status;
      const day = Math.floor((clock.now() - Date.parse('2026-03-01T00:00:00Z')) / DAY);
      clock.push(HOUR);
      const next = Math.floor((clock.now() - Date.parse('2026-03-01T00:00:00Z')) / DAY);
      if (next > day) days.counts.push(0);
    }
    expect(status).toBe('ok');
    expect(await stage.read((db) => db.prepare('SELECT count(*) FROM report').pluck().get())).toBe(PAGES);
    expect(Math.max(...days.counts)).toBeLessThanOrEqual(LIMIT);
    expect(days.counts.slice(0, -1).every((count) => count >= 0.85 * LIMIT)).toBe(true);
  });
});
