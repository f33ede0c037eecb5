import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { queueDrain, type ScanItem } from '../../../src/server/work-items/work-items.ts';
import { WorkQueue } from '../../../src/server/work-items/work-queue.ts';
import { asOtherClient, POSTGRES, postgresDatabase, preparedPostgres } from '../../support/databases.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { until } from '../../support/serving.ts';

const NEVER = new AbortController().signal;
const WALK: ScanItem = { kind: 'walk', source: 'blog', resource: 'content', command: 'sync' };

function opened(address: string, errors: unknown[] = []): WorkQueue {
  const failed = (error: unknown): void => void errors.push(error);
  const queue = new WorkQueue({ address, clock: systemClock, failed });
  onTestFinished(() => queue.close());
  return queue;
}

const jobs = (address: string): Promise<unknown[]> =>
  asOtherClient(address, async (client) => {
    const { rows } = await client.query<Record<string, unknown>>(
      'SELECT name, singleton_key AS key, state::text FROM content_sync_boss.job ORDER BY created_on',
    );
    return rows;
  });

/** As if its worker had not been heard of for long. */
const age = (address: string): Promise<unknown> =>
  asOtherClient(address, (client) =>
    client.query("UPDATE content_sync_boss.job SET heartbeat_on = now() - interval '1 min' WHERE state = 'active'"),
  );

describe.skipIf(POSTGRES.missing !== null)('the queue of work', () => {
  it('takes an item once, hands it to one process, and tells its end to all', async () => {
    const address = await postgresDatabase();
    const [first, second] = [opened(address), opened(address)];
    const asked = await first.put(WALK);
    expect(asked).toMatchObject({ isNew: true, isStarted: false });
    expect(await second.put({ ...WALK, command: 'backfill' })).toEqual({ ...asked, isNew: false });
    const taken: string[] = [];
    for (const [name, queue] of Object.entries({ first, second })) {
      queue.work('walk', 4, async (item) => {
        taken.push(`${name} ${item.resource} ${item.command}`);
        await delay(300);
        return { is: 'done', result: { said: `by\0 ${name}` } };
      });
    }
    const [one, other] = await Promise.all([first.outcome(asked.id, NEVER), second.outcome(asked.id, NEVER)]);
    expect(taken).toHaveLength(1);
    expect(one).toEqual(other);
    expect(one).toEqual({ said: expect.stringMatching(/^by\u{FFFD} (first|second)$/u) });
    expect(await second.put(WALK)).toMatchObject({ isNew: true });
  });

  it('asks for deliveries in the transaction that stores them: what is rolled back leaves nothing', async () => {
    const address = await preparedPostgres();
    await opened(address).opened;
    await asOtherClient(address, async (client) => {
      const execute: Parameters<typeof queueDrain>[1] = (text, values) => client.query(text, [...(values ?? [])]);
      await client.query('BEGIN');
      await queueDrain('blog', execute);
      await client.query('ROLLBACK');
      expect(await jobs(address)).toEqual([]);
      await client.query('BEGIN');
      for (let n = 0; n < 3; n += 1) await queueDrain('blog', execute);
      await queueDrain('docs', execute);
      await client.query('COMMIT');
    });
    expect(await jobs(address)).toEqual([
      { name: 'drain', key: 'blog', state: 'created' },
      { name: 'drain', key: 'docs', state: 'created' },
    ]);
  });

  it('gives back at once what is in hand when a process ends, and later what has to wait', async () => {
    const address = await preparedPostgres();
    const first = opened(address);
    const { id } = await first.put(WALK);
    const began = Promise.withResolvers<void>();
    first.work('walk', 1, async (_, signal) => {
      began.resolve();
      await delay(60_000, undefined, { signal });
      return { is: 'done', result: null };
    });
    await began.promise;
    const second = opened(address);
    expect(await second.put(WALK)).toEqual({ id, isNew: false, isStarted: true });
    const times: number[] = [];
    second.work('walk', 1, () => {
      times.push(performance.now());
      return Promise.resolve(times.length < 2 ? { is: 'returned', afterMs: 2_000 } : { is: 'done', result: 'whole' });
    });
    await first.close();
    const closed = performance.now();
    await until('given back', () => times.length === 1 || times.length);
    const coming = async (): Promise<unknown> => [
      ...(await second.returnedKeys('walk', ['blog/content', 'blog/images'])),
    ];
    await until('coming back', async () => String(await coming()) === 'blog/content' || coming());
    expect(await second.outcome(id, NEVER)).toBe('whole');
    const [back = 0, again = 0] = times;
    expect(back - closed).toBeLessThan(5_000);
    expect(again - back).toBeGreaterThan(1_900);
  });

  it('F137 takes an item over whose worker is dead or frozen, and believes only the new one', async () => {
    const address = await preparedPostgres();
    const frozen = opened(address);
    const { id } = await frozen.put(WALK);
    const begun = Promise.withResolvers<AbortSignal>();
    const wakesUp = Promise.withResolvers<void>();
    frozen.work('walk', 1, async (_, signal) => {
      begun.resolve(signal);
      await wakesUp.promise;
      return { is: 'done', result: 'by the one that was frozen' };
    });
    const signal = await begun.promise;
    await age(address);
    const other = opened(address);
    const taken = Promise.withResolvers<void>();
    const ends = Promise.withResolvers<void>();
    other.work('walk', 1, async () => {
      taken.resolve();
      await ends.promise;
      return { is: 'done', result: 'by the other one' };
    });
    await taken.promise;
    await until('told', () => signal.aborted);
    expect(signal.reason).toMatchObject({ code: 'interrupted' });
    wakesUp.resolve();
    await delay(200);
    ends.resolve();
    expect(await frozen.outcome(id, NEVER)).toBe('by the other one');
    expect(await jobs(address)).toEqual([{ name: 'walk', key: 'blog/content', state: 'completed' }]);
  });

  it('F136 goes on when the server has crashed and is back', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    const queue = opened(server.url());
    const { id } = await queue.put(WALK);
    const began = Promise.withResolvers<void>();
    const ends = Promise.withResolvers<void>();
    queue.work('walk', 1, async ({ resource }) => {
      began.resolve();
      await ends.promise;
      return { is: 'done', result: resource };
    });
    await began.promise;
    await server.crash();
    const asked = queue.put({ ...WALK, resource: 'images' });
    ends.resolve();
    await delay(500);
    await server.start();
    expect(await queue.outcome(id, NEVER)).toBe('content');
    expect(await queue.outcome((await asked).id, NEVER)).toBe('images');
  });

  it('leaves the items of sources alone that it does not know, so that nobody waits for them', async () => {
    const address = await preparedPostgres();
    const [trial, production] = [opened(address), opened(address)];
    const seen: string[] = [];
    trial.work('walk', 4, async ({ source, resource }) => {
      seen.push(`${source} ${resource}`);
      return source === 'trial' ? { is: 'done', result: null } : { is: 'unknown_source' };
    });
    await trial.put({ ...WALK, resource: 'first' });
    await until('seen', () => seen.length > 0);
    const ids = ['second', 'third'].map(async (resource) => (await trial.put({ ...WALK, resource })).id);
    await trial.outcome((await trial.put({ ...WALK, source: 'trial' })).id, NEVER);
    expect(seen).toEqual(['blog first', 'trial content']);
    production.work('walk', 4, async ({ resource }) => ({ is: 'done', result: resource }));
    const outcomes = ids.map(async (id) => trial.outcome(await id, NEVER));
    expect(await Promise.all(outcomes)).toEqual(['second', 'third']);
  });

  it('an item whose handler throws is told of and goes back; the others go on', async () => {
    const errors: unknown[] = [];
    const address = await preparedPostgres();
    const queue = opened(address, errors);
    await queue.put(WALK);
    const { id } = await queue.put({ ...WALK, resource: 'images' });
    queue.work('walk', 1, ({ resource }) =>
      resource === 'content' ? Promise.reject(new Error('a bug')) : Promise.resolve({ is: 'done', result: null }),
    );
    expect(await queue.outcome(id, NEVER)).toBeNull();
    expect(errors).toMatchObject([{ message: 'a bug' }]);
    expect(await jobs(address)).toContainEqual({ name: 'walk', key: 'blog/content', state: 'retry' });
  });
});
