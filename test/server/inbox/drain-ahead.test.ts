import { describe, expect, it, vi } from 'vitest';
import { USUAL } from '../../support/databases.ts';
import { eventFor } from '../../support/draining.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';
import { ownStage, type OwnStage } from '../../support/own-stage.ts';

/** How often a condition is looked at, and how long it is waited for on a busy machine. */
const SOON = { interval: 2, timeout: 60_000 };

const HOUR = 3_600_000;
/** However often deliveries are tried, their events' times are waited for so many times. */
const MOST_READINGS = 6;
const QUICK = { clock: hurriedClock(100) };

const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
const RECORDS = ['a', 'b', 'c'].map((id) => ({ id, title: 'first', updated_at: ago(2 * HOUR) }));

const BY_ID = 'SELECT * FROM content ORDER BY id';

/** The row of the first record. */
async function rowOf(stage: OwnStage): Promise<unknown> {
  return (await stage.rows(BY_ID))[0];
}

function readsOf({ service }: OwnStage, id: string): number {
  return service.asked.filter((asked) => asked.startsWith(`/v1/content/${id}`)).length;
}

// What an event says is judged above the databases: the soak tries the other one.
describe.for([USUAL])('an event whose time is ahead of the record, on $name', (database) => {
  it('of a clock that is wrong is read a few times, done with what the service has, and told', async () => {
    const stage = await ownStage(database, RECORDS);
    const heard = await stage.listen({ ...QUICK, attempts: 50 });
    stage.service.put({ id: 'a', title: 'second', updated_at: ago(HOUR) });
    const before = readsOf(stage, 'a');
    await heard.deliver(eventFor('content', 'a', 'updated', ago(-HOUR)));
    await heard.settled();
    // On a clock that flies, a lease may run out within a reading: that costs one more, and no attempt.
    expect(readsOf(stage, 'a') - before).toBeLessThan(2 * MOST_READINGS);
    const [row] = await heard.rows();
    expect(row).toMatchObject({
      state: 'done',
      attempts: MOST_READINGS - 1,
      reason: expect.stringMatching(/later time than the record.*\[ahead\]/),
    });
    expect((await stage.rows(BY_ID)).map(({ title }) => title)).toEqual(['second', 'first', 'first']);
  });

  it('does not keep the events beside it waiting, whose record is there: the row is written at once', async () => {
    const stage = await ownStage(database, RECORDS);
    const heard = await stage.listen({ attempts: 8 });
    const updated_at = ago(HOUR);
    stage.service.put({ id: 'a', title: 'second', updated_at });
    await heard.deliver(
      eventFor('content', 'a', 'updated', updated_at),
      eventFor('content', 'a', 'updated', ago(-HOUR)),
    );
    await vi.waitUntil(() => heard.events.length >= 2, SOON);
    expect(heard.events.map(({ outcome }) => outcome).toSorted()).toEqual(['deferred', 'loaded']);
    expect(await rowOf(stage)).toMatchObject({ title: 'second' });
    const states = async (): Promise<string[]> => (await heard.rows()).map(({ state }) => state).toSorted();
    await expect.poll(states).toEqual(['done', 'waiting']);
  });

  it('makes no row older where it is right and a replica lags, whatever the events beside it say', async () => {
    const stage = await ownStage(database, RECORDS);
    const heard = await stage.listen({ ...QUICK, attempts: 8 });
    const [old, now] = [
      { id: 'a', title: 'second', updated_at: ago(HOUR) },
      { id: 'a', title: 'third', updated_at: ago(HOUR / 2) },
    ];
    stage.service.put(now);
    expect((await heard.run('sync')).status).toBe('ok');
    // What is read alone is the listed record: from here on nothing but its time speaks against it.
    expect(await heard.hear('b')).toEqual(['unchanged']);
    stage.service.behaviour.alone = () => old;
    const events = [old, now].map(({ updated_at }) => eventFor('content', 'a', 'updated', updated_at));
    await heard.deliver(...events);
    await vi.waitUntil(() => heard.events.length >= 3, SOON);
    expect(await rowOf(stage)).toMatchObject({ title: 'third' });
    stage.service.behaviour.alone = (record) => record;
    await heard.settled();
    expect(await rowOf(stage)).toMatchObject({ title: 'third', _version: 2 });
    expect((await heard.rows()).map(({ state }) => state)).toEqual(['done', 'done', 'done']);
  });
});
