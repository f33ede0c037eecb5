import { describe, expect, it } from 'vitest';
import { USUAL } from '../../support/databases.ts';
import { eventFor } from '../../support/draining.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';
import { ownStage } from '../../support/own-stage.ts';

const HOUR = 3_600_000;
const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
const OLD = { id: 'a', title: 'first', updated_at: ago(2 * HOUR) };
const NEW = { id: 'a', title: 'second', updated_at: ago(HOUR) };
const TITLES = 'SELECT title FROM content ORDER BY id';
const ATTEMPTS = 8;

/** A service whose cache gives what it has kept for the first `keeps` readings of a record, whose event tells no time. */
async function staged(keeps: number) {
  const stage = await ownStage(USUAL, [OLD]);
  const heard = await stage.listen({ clock: hurriedClock(200), attempts: ATTEMPTS });
  let reads = 0;
  stage.service.put(NEW);
  stage.service.behaviour.alone = () => ((reads += 1) <= keeps ? OLD : NEW);
  stage.service.behaviour.age = () => (reads <= keeps ? 3_600 : 0);
  await heard.deliver(eventFor('content', 'a'));
  await heard.settled();
  return { titles: await stage.rows(TITLES), deliveries: await heard.rows(), reads };
}

describe('a record that a cache in front of the service had kept from before its event', () => {
  it('is read again until the answer is from after it', async () => {
    const { titles, deliveries } = await staged(3);
    expect(titles).toEqual([{ title: 'second' }]);
    expect(deliveries).toMatchObject([{ state: 'done', attempts: 3, reason: null }]);
  });

  it('is not read for ever: the delivery says that the cache gave nothing else', async () => {
    const { deliveries, reads } = await staged(Infinity);
    expect(deliveries).toMatchObject([{ state: 'done', reason: expect.stringContaining('[cached]') }]);
    expect(reads).toBeGreaterThanOrEqual(ATTEMPTS);
  });
});
