import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { POSTGRES, SQLITE } from '../support/databases.ts';
import { eventBody, servingStage, until } from '../support/serving.ts';
import { askedTwice, FIRST_WALKS, isWhole, ownersIn, startWorker, walksOf } from './working.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };
const SOME = { generate: { content: 800, images: 60, analytics: 400 }, latency: 30 };

describe('worker on SQLite', () => {
  it('refuses, and says what to do instead', async () => {
    const stage = await servingStage({ sandbox: FEW, database: SQLITE });
    const { code, stderr } = await stage.run('worker');
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('SQLite') });
    expect(stderr).toContain('content-sync serve');
  });
});

describe.skipIf(POSTGRES.missing !== null)('workers on one Postgres', { timeout: 120_000 }, () => {
  it('F133 two of them and two serves do what the schedule asks for once, and no page twice', async () => {
    const stage = await servingStage({ sandbox: SOME, database: POSTGRES });
    const workers = await Promise.all([startWorker(stage), startWorker(stage)]);
    const [serving, other] = await Promise.all([stage.serve(), stage.serve()]);
    await stage.fresh(serving);
    expect(await walksOf(stage)).toEqual(FIRST_WALKS);
    expect(askedTwice(stage)).toEqual([]);
    await stage.settled();
    expect(await serving.stop()).toMatchObject({ code: 0 });
    expect(await other.stop()).toMatchObject({ code: 0 });
    for (const each of workers) each.kill('SIGTERM');
    for (const each of workers) expect(await each.ended).toMatchObject({ code: 0 });
  });

  it('a delivery becomes a row at once in the process that received it, and soon in another', async () => {
    const stage = await servingStage({ sandbox: FEW, database: POSTGRES });
    const first = await stage.serve();
    await stage.fresh(first);
    const second = await stage.serve();
    for (const [n, { url }] of [first, second, first, second].entries()) {
      const title = `told ${n}`;
      stage.write('content', 'new', { title });
      const body = eventBody({ resource: 'content', id: 'new' });
      expect(await stage.deliver(url, { id: `msg_${n}`, body })).toBe(202);
      await until(title, () =>
        stage.read((db) => db.prepare('SELECT title FROM content WHERE id = ?').pluck().get('new') === title),
      );
    }
    await stage.settled();
    const readAlone = stage.sandbox.requests.entries().filter(({ path }) => path.startsWith('/v1/content/new'));
    expect(readAlone).toHaveLength(4);
    const { attention } = await second.status();
    expect(attention).toEqual([]);
  });

  it('F133 one that is told to stop gives its walk to another at once, which goes on at the same page', async () => {
    const stage = await servingStage({ sandbox: { ...SOME, latency: 400 }, database: POSTGRES });
    const workers = await Promise.all([startWorker(stage), startWorker(stage)]);
    const serves = await Promise.all([stage.serve(), stage.serve()]);
    // Whichever of them walks: a serve does walks too, and who takes what is a matter of milliseconds.
    const commands = [...workers, ...serves.map(({ command }) => command)];
    const walking = async () => {
      const owners = await ownersIn(stage);
      return commands.find(({ pid }) => owners.some((owner) => owner.includes(`pid ${pid} `)));
    };
    await until('under way', async () => (await walking()) !== undefined);
    const doomed = await walking();
    await delay(300);
    doomed?.kill('SIGTERM');
    expect(await doomed?.ended).toMatchObject({ code: 0 });
    const left = serves.find(({ command }) => command !== doomed);
    if (left === undefined) throw new Error('both serves are gone');
    await stage.fresh(left);
    await stage.settled();
    expect((await walksOf(stage)).filter((walk) => !isWhole(walk))).not.toEqual([]);
    // What was on its way when it was told.
    expect(askedTwice(stage).length).toBeLessThan(8);
  });
});
