import { expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';

it('follows the plan of a run, sends no request, and says that a run will be refused', async () => {
  const stage = await ownStage(
    SQLITE,
    [1, 2, 3].map((id) => ({ id, updated_at: '2024-01-01T00:00:00Z' })),
  );
  const plan = async (run: 'backfill' | 'sync' = 'sync') => {
    const { stdout, stderr, code } = await stage.command('plan', run, '--json');
    if (stdout === '') throw new Error(stderr);
    const { resources } = JSON.parse(stdout);
    return { code, ...resources[0] };
  };
  const asked = stage.service.asked.length;
  expect(await plan()).toMatchObject({ code: 0, mode: 'incremental', since: expect.any(String), is_refused: false });
  expect(await plan('backfill')).toMatchObject({ code: 0, mode: 'full', since: null, requests: expect.any(Number) });
  expect((await stage.command('plan')).stdout).toMatch(/content: incremental since .*; no such run yet/);
  stage.setProfile({ resources: { content: { json: ['seo'] } } });
  expect(await plan()).toMatchObject({ code: 2, mode: 'full', is_refused: true });
  stage.setProfile({ resources: { content: { incremental: null } } });
  const notes = ['the profile has no filter by time: everything is fetched'];
  expect(await plan()).toMatchObject({ code: 0, mode: 'full', notes });
  expect(stage.service.asked).toHaveLength(asked);
});
