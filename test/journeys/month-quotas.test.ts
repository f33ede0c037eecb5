import { describe, expect, it } from 'vitest';
import { exitCodeOfStatus } from '../../src/cli/command/exit-code.ts';
import type { Reply } from '../extract/listing-server.ts';
import { eitherDatabase } from '../support/databases.ts';
import { pushedClock } from '../support/hurried-clock.ts';
import { ownService } from '../support/own-service.ts';

const LIMIT = 40;
const PAGES = 90;
const WINDOW_S = 2_592_000;

describe.for(eitherDatabase(import.meta.filename))('a quota by month that headers state, on $name', (database) => {
  it('is used up and never exceeded: the run is deferred to its reset, also after restarts', async () => {
    const clock = pushedClock('2026-01-29T00:00:30.000Z', 50);
    const months = new Map<string, number>();
    const respond = (url: URL): Reply => {
      const now = new Date(clock.now());
      const month = now.toISOString().slice(0, 7);
      const count = (months.get(month) ?? 0) + 1;
      months.set(month, count);
      const reset = Math.ceil((Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) - now.getTime()) / 1_000);
      const headers: Record<string, string> = {
        date: now.toUTCString(),
        'ratelimit-policy': `"month";q=${LIMIT};w=${WINDOW_S}`,
        ratelimit: `"month";r=${Math.max(0, LIMIT - count)};t=${reset}`,
      };
      if (count > LIMIT) return { status: 429, headers: { ...headers, 'retry-after': String(reset) } };
      const at = Number(url.searchParams.get('cursor') ?? 1);
      const data = url.pathname.endsWith('/report') ? [{ id: at }] : [];
      return { headers, body: { data, next_cursor: at < PAGES ? String(at + 1) : null } };
    };
    const stage = await ownService(database, {}, respond, { rate: { share: 1 } });
    const report = { path: '/report', page: { style: 'cursor' }, updated: null, accept: ['end', 'item'], item: null };
    stage.setProfile({ resources: { content: null, images: null, analytics: null, report } });
    const statuses: Parameters<typeof exitCodeOfStatus>[0][] = [];
    while (statuses.at(-1) !== 'ok' && statuses.length < 60) {
      const { status } = await stage.run('backfill', { clock });
      statuses.push(status);
      clock.push(86_400_000);
    }
    expect(statuses.at(-1)).toBe('ok');
    expect(statuses.slice(0, -1).every((status) => exitCodeOfStatus(status) === 4)).toBe(true);
    const counts = [...months.values()];
    expect(Math.max(...counts)).toBeLessThanOrEqual(LIMIT);
    expect(counts.slice(0, -1).every((count) => count >= LIMIT - 1)).toBe(true);
  });
});
