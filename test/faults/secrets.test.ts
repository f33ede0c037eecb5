import { describe, expect, it } from 'vitest';
import { filesIn, type Leak, leakFinder } from './canaries.ts';
import { expectWholeCopy, onStage, reportOf, type Stage } from './stage.ts';

/** Where a secret stands in what a stage's commands have printed or written. */
function leaks(stage: Stage, secret: string): Leak[] {
  const find = leakFinder({ secret });
  const files = filesIn(stage.folder, (file) => ['config.yaml', 'profile.yaml'].includes(file));
  return [['output', stage.written()] as const, ...files].flatMap(([where, text]) => find(where, text));
}

const KEY = 'canary/key+0815=xy';

describe('F211 secrets stay where they are', () => {
  it.concurrent('F211 a header of the profile that holds a secret is written nowhere', async () => {
    const headers = { 'X-Api-Key': '${CANARY_HEADER:-canary-header-secret-0815}' };
    await onStage({ logLevel: 'trace', profile: { headers } }, async (stage) => {
      stage.sandbox.faults.add({ fault: 'status', status: 400, body: '{"title":"no canary-header-secret-0815 here"}' });
      expect((await stage.backfill()).code).toBe(1);
      expect(leaks(stage, 'canary-header-secret-0815')).toEqual([]);
    });
  });

  it.concurrent('F211 a secret that the service writes into the next link is not stored with the position', async () => {
    const byUrl = { pagination: 'next-url', apiKey: KEY } as const;
    const options = { logLevel: 'trace', sandbox: byUrl, resource: { page: { style: 'next-url', size: 4 } } };
    await onStage(options, async (stage) => {
      const { faults } = stage.sandbox;
      faults.add({ fault: 'foreign-next', to: `{path}&api_key=${encodeURIComponent(KEY)}` });
      faults.add({ fault: 'status', status: 500, page: 3 });
      expect((await stage.backfill()).code).toBe(3);
      expect(leaks(stage, KEY)).toEqual([]);
      faults.clear();
      expect((await stage.backfill()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });

  it.concurrent('F211 a secret among the query parameters of the profile is not stored, and the walk still resumes', async () => {
    const canary = 'canary-query/secret 0815';
    const resource = { page: { size: 4 }, query: { api_key: `\${CANARY_QUERY:-${canary}}`, lang: 'en' } };
    await onStage({ logLevel: 'trace', resource }, async (stage) => {
      stage.sandbox.faults.add({ fault: 'reset', page: 3, resource: 'content' });
      expect((await stage.backfill()).code).toBe(3);
      expect(await stage.query(`SELECT walk_pages FROM _sync_checkpoints WHERE resource = 'content'`)).toEqual([
        { walk_pages: 2 },
      ]);
      expect(leaks(stage, canary)).toEqual([]);
      stage.sandbox.faults.clear();
      stage.sandbox.requests.clear();
      expect(reportOf(await stage.backfill())).toMatchObject({ status: 'ok', pages: 2, inserted: 8, unchanged: 0 });
      for (const { path: asked } of stage.sandbox.requests.entries()) {
        const { searchParams } = new URL(asked, stage.sandbox.url);
        expect([searchParams.getAll('api_key'), searchParams.getAll('lang')]).toEqual([[canary], ['en']]);
      }
      await expectWholeCopy(stage);
    });
  });
});
