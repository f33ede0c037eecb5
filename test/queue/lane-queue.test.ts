import { describe, expect, it } from 'vitest';
import { LANES, type Lane } from '../../src/model/vocabulary.ts';
import { LaneQueue, mayStart, yields, yieldingSlots } from '../../src/queue/lane-queue.ts';

/** A queue in which these requests came one after the other; each one notes its place when it runs. */
function queueOf(...lanes: Lane[]) {
  const order: number[] = [];
  const queue = new LaneQueue();
  for (const [place, lane] of lanes.entries()) {
    queue.enqueue(async () => void order.push(place), { lane, id: String(place) });
  }
  const run = async (count: number): Promise<number[]> => {
    for (let taken = 0; taken < count; taken += 1) await queue.dequeue()?.();
    return order;
  };
  return { queue, run };
}

describe('the queue of lanes', () => {
  it('takes earlier lanes first, and within a lane those that came first', async () => {
    const { run } = queueOf('backfill', 'incremental', 'refetch', 'refetch');
    expect(await run(4)).toEqual([2, 3, 1, 0]);
  });

  it('takes the oldest of all lanes every fifth time', async () => {
    const { run } = queueOf('bulk', 'refetch', 'refetch', 'refetch', 'refetch', 'refetch');
    expect(await run(6)).toEqual([1, 2, 3, 4, 0, 5]);
  });

  it('tells how many wait, in all and in a lane, and forgets one that has given up', async () => {
    const { queue, run } = queueOf('backfill', 'refetch', 'backfill');
    queue.remove('0');
    expect([queue.size, queue.filter({ lane: 'backfill' }).length]).toEqual([2, 1]);
    expect(await run(3)).toEqual([1, 2]);
  });
});

const waiting = (...lanes: Lane[]) => ({
  size: lanes.length,
  sizeBy: ({ lane }: { lane: Lane }) => lanes.filter((other) => other === lane).length,
});

describe('slots of yielding lanes', () => {
  it.each<[string, Lane[], number, boolean]>([
    ['nobody waits', [], 0, false],
    ['a backfill below its slots', ['backfill'], 3, true],
    ['a backfill that has them all', ['backfill'], 4, false],
    ['a live request beside it', ['backfill', 'refetch'], 4, true],
  ])('%s', (_name, lanes, yielding, may) => {
    expect(mayStart(waiting(...lanes), yielding, 4)).toBe(may);
  });

  it('are a fifth fewer while live lanes are in use, of few slots none', () => {
    expect([1, 4, 5, 10].map(yieldingSlots)).toEqual([1, 4, 4, 8]);
    expect(LANES.filter(yields)).toEqual(['backfill', 'bulk']);
  });
});
