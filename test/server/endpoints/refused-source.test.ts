import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { renderStatusPage } from '../../../src/server/page/overview.ts';
import { attentionOf } from '../../../src/server/status/attention.ts';
import { createCollector } from '../../../src/server/status/collect.ts';
import { snapshotWith, NONCE } from './sample-status.ts';

describe('a source whose settings cannot be used', () => {
  const fault = { file: 'sources/<b>.yaml', line: 3, column: 1, field: 'rate', message: 'expected a map, got a text' };
  const refused = [{ name: 'shop', faults: [fault, { ...fault, line: 4, field: 'ping' }] }];

  it('is on the page with each line that has to be corrected, and first of what needs attention', async () => {
    const collector = createCollector({
      version: '0',
      clock: systemClock,
      startedAt: 0,
      sources: () => [],
      refused,
      stopping: () => false,
    });
    const snapshot = snapshotWith({ refused: (await collector.snapshot()).refused });
    expect(attentionOf(snapshot)[0]).toMatchObject({ severity: 'down', source: 'shop' });
    const page = renderStatusPage(snapshot, NONCE);
    expect(page).toContain('sources/&lt;b&gt;.yaml:3:1  rate: expected a map, got a text');
    expect(page).toContain('sources/&lt;b&gt;.yaml:4:1  ping: expected a map');
    expect(page).toContain('href="sources/shop"');
    expect(page).toContain('id="shop-title"');
  });
});
