import { describe, expect, it, vi } from 'vitest';
import { startCommand } from '../support/command.ts';
import { expectWholeCopy, onStage, requestsFor } from './stage.ts';

describe('a run that must not start', () => {
  it.concurrent('F155 every fault is named in one message, exit 2, and nothing is asked of the service', async () => {
    const source = { base_url: 'ftp://x', rate: { share: 7 }, resources: ['contents'], unknown: 1 };
    await onStage({ source, resource: { page: { size: 0 }, history: 'some' } }, async (stage) => {
      const ended = await stage.backfill();
      expect([ended.code, stage.sandbox.requests.total]).toEqual([2, 0]);
      for (const field of ['base_url', 'rate.share', 'unknown', 'page.size', 'history'])
        expect(ended.stderr).toContain(field);
      expect(ended.error).toMatchObject({ code: 'settings_invalid' });
    });
  });

  it('F150 F133 a run that lasts longer than its interval: the next one does not start beside it', async () => {
    const http = { headers_timeout: '60s', timeout: '60s', attempts: 1, concurrency: 4 };
    await onStage({ profile: { http } }, async (stage) => {
      const { sandbox, clock, folder } = stage;
      const again = () => startCommand(['sync', '--json', '--config', 'config.yaml'], folder).ended;
      sandbox.faults.add({ fault: 'latency', ms: 86_400_000, page: 2, resource: 'content' });
      const running = stage.backfill();
      await vi.waitUntil(() => requestsFor(stage, 'content') === 2, { timeout: 20_000 });
      const refused = await again();
      expect(refused.stderr).toMatch(/lease_held/);
      expect([refused.code, refused.stdout]).toEqual([1, '']);
      sandbox.faults.clear();
      clock.wake();
      const first = await running;
      expect(first.code).toBe(0);
      expect(sandbox.requests.total).toBe(first.report.resources.reduce((sum, { requests }) => sum + requests, 0));
      expect((await again()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });
});
