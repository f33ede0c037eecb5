import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { eventBody, resourceIn, servingStage, until } from '../support/serving.ts';

const EITHER = eitherDatabase(import.meta.filename);

const RENAMED = { content: { page: { size: 40 }, fields: { title: { rename: 'headline' } } } };

describe.for(EITHER)('beside a running serve on $name', { timeout: 150_000 }, (database) => {
  it('a resource that is walked is rebuilt once it is paused, and goes on under the changed profile', async () => {
    const generate = { content: 1_000, images: 5, analytics: 5 };
    const stage = await servingStage({ database, sandbox: { generate, rate: 2, burst: 4 } });
    const serving = await stage.serve();
    const rows = (): Promise<unknown> =>
      stage.read((db) => db.prepare('SELECT count(*) AS n FROM content').get()).catch(() => null);
    await until('under way', async () => Number(Object(await rows())['n']) > 0);
    stage.configure({ profile: { resources: RENAMED } });
    const held = await stage.run('rebuild', 'content');
    expect([held.code, held.stderr]).toEqual([1, expect.stringContaining('lease_held')]);
    expect(held.stderr).toContain(
      'content-sync pause content, then content-sync rebuild content, then content-sync reload',
    );
    expect(await stage.run('pause', 'content')).toMatchObject({ code: 0, stderr: '' });
    const rebuilt = await stage.run('rebuild', 'content', '--json');
    expect([rebuilt.code, rebuilt.stderr]).toEqual([0, '']);
    expect(resourceIn(await serving.status(), 'content').paused).not.toBe(null);
    // A delivery that comes meanwhile waits.
    stage.write('content', 'told-1', { title: 'Told while it was paused' });
    expect(await serving.deliver({ id: 'm1', body: eventBody({ resource: 'content', id: 'told-1' }) })).toBe(202);
    stage.sandbox.setRate({ rate: 500, burst: 500 });
    expect(await stage.run('reload')).toMatchObject({ code: 0, stderr: '' });
    expect(await stage.run('resume', 'content')).toMatchObject({ code: 0, stderr: '' });
    const headline = (): Promise<unknown> =>
      stage
        .read((db) => db.prepare("SELECT headline FROM content WHERE id = 'told-1'").pluck().get())
        .catch(() => null);
    await until('told', async () => (await headline()) === 'Told while it was paused');
    await stage.fresh(serving);
    const walked = await stage.run('sync', 'content', '--json');
    expect([walked.code, walked.stderr]).toEqual([0, expect.not.stringContaining('error')]);
    // At rest it is nobody's: no pause is needed.
    await until('at rest', async () => (await stage.run('rebuild', 'content')).code === 0);
    const { n } = Object(await rows());
    expect(Number(n)).toBe(1_001);
    expect((await serving.stop()).code).toBe(0);
  });
});
