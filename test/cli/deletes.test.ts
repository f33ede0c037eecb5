import { describe, expect, it } from 'vitest';
import { deleteStage } from '../support/delete-stage.ts';

const ONE = { profile: { resources: { content: { page: { size: 50 } } } } };

/** Thirty of a hundred are gone, which is too much to be believed. */
async function heldStage() {
  const stage = await deleteStage(100, ONE);
  const gone = stage.remove(30);
  await stage.walk();
  return { stage, gone };
}

describe('content-sync deletes', () => {
  it('lists nothing where nothing waits', async () => {
    const stage = await deleteStage(20, ONE);
    expect(await stage.command('deletes', 'list')).toMatchObject({
      code: 0,
      stdout: 'no deletes wait\n',
      stderr: '',
    });
    expect(await stage.command('deletes', 'confirm')).toMatchObject({ code: 0, stdout: 'no deletes wait\n' });
  });

  it('lists what is held, with the reason and since when, and asks the service nothing', async () => {
    const { stage, gone } = await heldStage();
    stage.sandbox.requests.clear();
    const { stdout } = await stage.command('deletes', 'list');
    expect(stdout.split('\n')).toHaveLength(31);
    expect(stdout).toMatch(
      /^content +cnt_\S+ +held +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC +not listed by a full sync; 30 of 100/,
    );
    const { source, deletes } = JSON.parse((await stage.command('deletes', 'list', 'content', '--json')).stdout);
    expect([source, deletes.length]).toEqual(['blog', 30]);
    expect(deletes[0]).toEqual({
      resource: 'content',
      id: gone[0],
      state: 'held',
      reason: 'missing',
      since: expect.stringMatching(/^\d{4}-/),
      detail: expect.stringContaining('deletes.max_part'),
    });
    expect(stage.sandbox.requests.total).toBe(0);
    const status = JSON.parse((await stage.command('status', '--json')).stdout);
    expect(status.resources[0]).toMatchObject({ rows: 100, deleted: 0, held: 30, last_run: 'partial' });
  });

  it('confirm reads each once more: one that is there stays, the others go, and the guard does not count them', async () => {
    const { stage, gone } = await heldStage();
    const [back = '', ...rest] = gone;
    stage.sandbox.store.put('content', { id: back, title: 'back', updated_at: new Date().toISOString() });
    const ended = await stage.command('deletes', 'confirm', '--json');
    expect([ended.code, JSON.parse(ended.stdout)]).toEqual([
      0,
      { source: 'blog', resources: [{ resource: 'content', decision: 'confirm', count: 30, deleted: 29, left: null }] },
    ]);
    expect(await stage.deleted()).toEqual(rest);
    expect(await stage.faults()).toEqual([]);
    // 29 went on a person's word: 7 of 71 more are a tenth, and are believed.
    stage.remove(7);
    expect(await stage.walk()).toMatchObject({ status: 'ok', deleted: 7, held: 0 });
  });

  it('confirms only what is named, and refuses what does not wait', async () => {
    const { stage, gone } = await heldStage();
    const [one = ''] = gone;
    expect((await stage.command('deletes', 'confirm', '--id', one)).stdout).toContain('1 confirmed, 1 deleted by now');
    expect(await stage.deleted()).toEqual([one]);
    const { code, stderr } = await stage.command('deletes', 'discard', '--id', 'nobody');
    expect([code, stderr.includes('no delete of nobody waits')]).toEqual([2, true]);
    expect((await stage.walk('sync')).held).toBe(29);
  });

  it('discard forgets them: the rows stay live until the next whole walk suspects them again', async () => {
    const { stage } = await heldStage();
    expect((await stage.command('deletes', 'discard')).stdout).toBe('content: 30 forgotten, their rows stay live\n');
    expect(await stage.walk('sync')).toMatchObject({ status: 'ok', held: 0 });
    expect(await stage.live()).toHaveLength(100);
    expect(await stage.walk()).toMatchObject({ status: 'partial', held: 30 });
  });

  it('leaves what is confirmed to the process that owns the resource', async () => {
    const { stage, gone } = await heldStage();
    const app = await stage.open();
    const owned = await app.ownedResources.acquire('content');
    const { code, stdout } = await stage.start('deletes', 'confirm').ended;
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/30 confirmed, 0 deleted by now; .* content is being synced by pid/),
    ]);
    expect(await stage.live()).toHaveLength(100);
    expect(await app.confirmReleased('content', new AbortController().signal)).toMatchObject({ deleted: 30 });
    await owned.release();
    await app.close();
    expect(await stage.deleted()).toEqual(gone);
  });
});
