import { describe, expect, it, onTestFinished } from 'vitest';
import { SourceActivity } from '../../../src/observe/activity.ts';
import { createMetrics } from '../../../src/observe/metrics.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { attentionOf } from '../../../src/server/status/attention.ts';
import { createCollector } from '../../../src/server/status/collect.ts';
import type { StatusParts } from '../../../src/server/status/source-status.ts';
import { renderStatusPage } from '../../../src/server/page/overview.ts';
import { asOtherClient, POSTGRES, preparedAddress, warehouseOn } from '../../support/databases.ts';
import { snapshotWith, VIEW } from './sample-status.ts';

describe.runIf(POSTGRES.missing === null)('the status of a source on Postgres', () => {
  it('shows the size of its schema, and where it is without who asks', async () => {
    const address = await preparedAddress(POSTGRES);
    const { warehouse } = await warehouseOn(POSTGRES, address);
    const metrics = createMetrics('0');
    onTestFinished(() => metrics.close());
    const parts: StatusParts = {
      source: {
        name: 'blog',
        base_url: 'https://cms.example.com',
        profile: { version_prefix: '/v1', version: { header: null, query: {} }, resources: {} },
        warehouse: address,
        resources: ['content'],
        rate: { share: 0.9 },
        webhook: null,
        files: { kept: {} },
      },
      activity: new SourceActivity('blog', systemClock, metrics),
      read: (work) => work(warehouse),
      governor: () => null,
      schedule: () => ({ incremental: null, full: null, timezone: 'UTC', next_at: null, overdue_at: null }),
      inbox: null,
      deliveries: null,
      scrub: (text) => text,
    };
    const sizeNow = async (): Promise<number> => {
      const options = { version: '0', clock: systemClock, startedAt: 0, sources: () => [parts], stopping: () => false };
      const collector = createCollector(options);
      expect((await collector.ready()).ready).toBe(true);
      const [status] = (await collector.snapshot()).sources;
      expect(status?.warehouse).toMatchObject({ problem: null, wal_bytes: null });
      expect(status?.warehouse.address).toMatch(/^postgres:\/\/127\.0\.0\.1:\d+\/test_\w+\?schema=blog$/);
      return status?.warehouse.file_bytes ?? 0;
    };
    const before = await sizeNow();
    expect(before).toBeGreaterThan(0);
    await asOtherClient(address, async (client) => {
      await client.query('CREATE TABLE big AS SELECT repeat(n::text, 100) AS t FROM generate_series(1, 5000) AS n');
      await client.query('CREATE SCHEMA other; CREATE TABLE other.bigger AS SELECT * FROM big, generate_series(1, 9)');
    });
    const grown = (await sizeNow()) - before;
    expect(grown).toBeGreaterThan(1_000_000);
    expect(grown).toBeLessThan(4_000_000);
  });
});

describe('a source whose settings cannot be used', () => {
  const fault = { file: 'sources/<b>.yaml', line: 3, column: 1, field: 'rate', message: 'expected a map, got a text' };
  const refused = [{ name: 'shop', faults: [fault, { ...fault, line: 4, field: 'ping' }] }];

  it('is on the page with each line that has to be corrected, and first of what needs attention', async () => {
    const collector = createCollector({
      version: '0',
      clock: systemClock,
      startedAt: 0,
      sources: () => [],
      refused: () => refused,
      stopping: () => false,
    });
    const snapshot = snapshotWith({ refused: (await collector.snapshot()).refused });
    expect(attentionOf(snapshot)[0]).toMatchObject({ severity: 'down', source: 'shop' });
    const page = renderStatusPage(snapshot, VIEW);
    expect(page).toContain('sources/&lt;b&gt;.yaml:3:1  rate: expected a map, got a text');
    expect(page).toContain('sources/&lt;b&gt;.yaml:4:1  ping: expected a map');
    expect(page).toContain('href="sources/shop"');
    expect(page).toContain('id="shop-title"');
  });
});
