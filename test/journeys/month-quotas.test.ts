import { describe, expect, it } from 'vitest';
import type { App } from '../../src/app.ts';
import { newMeter } from '../../src/http/client.ts';
import { DeferredError } from '../../src/model/errors.ts';
import type { Reply } from '../extract/listing-server.ts';
import { POSTGRES, SQLITE, type TestDatabase } from '../support/databases.ts';
import { pushedClock, type PushedClock } from '../support/hurried-clock.ts';
import { longOrShort } from '../support/length.ts';
import { ownService, type OwnService } from '../support/own-service.ts';

const HOUR = 3_600_000;
const LIMIT = longOrShort(120, 60);
const PAGES = longOrShort(270, 135);

/** Requests by month of the service's clock, `YYYY-MM`, refused ones included. */
type Months = Map<string, number>;

/** A long listing behind a quota by calendar month, of which the answers tell if `isTold`. */
async function monthStage(
  database: TestDatabase,
  { clock, months, isTold }: { clock: Pick<PushedClock, 'now'>; months: Months; isTold: boolean },
): Promise<OwnService> {
  const respond = (url: URL): Reply => {
    const now = new Date(clock.now());
    const month = now.toISOString().slice(0, 7);
    const count = (months.get(month) ?? 0) + 1;
    months.set(month, count);
    const reset = Math.ceil((Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) - now.getTime()) / 1_000);
    const headers: Record<string, string> = { date: now.toUTCString() };
    if (isTold) {
      headers['ratelimit-policy'] = `"month";q=${LIMIT};w=2592000`;
      headers['ratelimit'] = `"month";r=${Math.max(0, LIMIT - count)};t=${reset}`;
    }
    if (count > LIMIT) return { status: 429, headers: { ...headers, 'retry-after': String(reset) } };
    const at = Number(url.searchParams.get('cursor') ?? 1);
    const data = url.pathname.endsWith('/report') ? [{ id: at }] : [];
    return { headers, body: { data, next_cursor: at < PAGES ? String(at + 1) : null } };
  };
  const stage = await ownService(database, {}, respond, { rate: { share: 1 } });
  const report = { path: '/report', page: { style: 'cursor' }, updated: null, accept: ['end', 'item'], item: null };
  const limits = isTold ? {} : { rate_limit: { base: 'none', quotas: [`${LIMIT}/month`] } };
  stage.setProfile({ ...limits, resources: { content: null, images: null, analytics: null, report } });
  return stage;
}

/** A request of this lane; false if it was put off. */
async function sent({ client }: App, lane: 'refetch' | 'backfill', { url }: OwnService['service']): Promise<boolean> {
  try {
    await client.get({ url: new URL('/v1/other', url), lane, meter: newMeter() });
    return true;
  } catch (error) {
    if (error instanceof DeferredError) return false;
    throw error;
  }
}

describe('a quota by month, on sqlite', () => {
  it.each([
    ['that the profile states', false],
    ['that headers tell', true],
  ])(
    '%s is used month after month through restarts, never exceeded, and leaves some to what is live',
    async (...[, isTold]) => {
      const clock = pushedClock('2026-01-29T00:00:30.000Z', 50);
      const months: Months = new Map();
      const stage = await monthStage(SQLITE, { clock, months, isTold });
      let [status, putOff, live] = ['deferred', 0, 0];
      for (let runs = 0; status === 'deferred' && runs < 200; runs += 1) {
        ({ status } = await stage.run('backfill', { clock }));
        if (status === 'deferred' && runs % 4 === 1) {
          const app = await stage.open(clock);
          if (await sent(app, 'refetch', stage.service)) live += 1;
          else putOff += 1;
          await app.close();
        }
        clock.push(18 * HOUR);
      }
      expect(status).toBe('ok');
      expect(await stage.read((db) => db.prepare('SELECT count(*) FROM report').pluck().get())).toBe(PAGES);
      const counts = [...months.values()];
      expect(months.size).toBeGreaterThanOrEqual(3);
      expect(Math.max(...counts)).toBeLessThanOrEqual(LIMIT);
      // The first month had only its last days, the last one was not needed to its end.
      expect(counts.slice(1, -1).every((count) => count >= 0.85 * LIMIT)).toBe(true);
      expect({ putOff, live }).toEqual({ putOff: 0, live: expect.toSatisfy((count: number) => count >= 5) });
    },
  );
});

describe.skipIf(POSTGRES.missing !== null)('a quota by month, of processes on one Postgres', () => {
  it('is one for all of them, also for those that come later', async () => {
    const months: Months = new Map();
    const stage = await monthStage(POSTGRES, { clock: { now: () => Date.now() }, months, isTold: false });
    const { service } = stage;
    const open = () => Promise.all([1, 2, 3].map(() => stage.open()));
    const used = (): number => [...months.values()].reduce((sum, count) => sum + count, 0);
    const apps = await open();
    await Promise.all(
      apps.map(async (app) => {
        while (await sent(app, 'backfill', service));
      }),
    );
    const byBackfills = used();
    expect(byBackfills).toBeGreaterThan(0);
    expect(byBackfills).toBeLessThan(LIMIT);
    await Promise.all(apps.map((app) => app.close()));

    const [first, second, third] = await open();
    if (first === undefined || second === undefined || third === undefined) throw new Error('three were opened');
    expect(await sent(first, 'backfill', service)).toBe(false);
    for (let left = LIMIT - byBackfills; left > 0; left -= 1) expect(await sent(second, 'refetch', service)).toBe(true);
    expect(await sent(third, 'refetch', service)).toBe(false);
    expect(used()).toBe(LIMIT);
    await Promise.all([first, second, third].map((app) => app.close()));
  });
});
