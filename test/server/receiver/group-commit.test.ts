import { describe, expect, it } from 'vitest';
import type { InboxEffect, NewDelivery } from '../../../src/database/inbox.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { GroupCommit } from '../../../src/server/receiver/group-commit.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { delivery } from '../../database/deliveries.ts';

const BUSY = new SyncError('warehouse_busy', 'locked', { recovery: 'stop' });

/** A store that can be locked and that refuses some deliveries; each write is a list of ids. */
function store({ timeoutMs = 800, maxWaiting = 10 } = {}) {
  const clock = new HandClock();
  const writes: string[][] = [];
  const state = { locked: false, refused: new Set<string>(), answers: Promise.resolve() };
  const write = async (deliveries: readonly NewDelivery[]): Promise<InboxEffect[]> => {
    await state.answers;
    if (state.locked) throw BUSY;
    const ids = deliveries.map(({ delivery_id }) => delivery_id);
    if (ids.some((id) => state.refused.has(id))) throw new Error('cannot be bound');
    writes.push(ids);
    return ids.map((id) => (id === 'a' ? 'repeat' : 'new'));
  };
  const commits = new GroupCommit({ write, clock, timeoutMs, maxWaiting });
  return { clock, writes, state, add: (id: string) => commits.add(delivery(id)) };
}

describe('a group commit', () => {
  it('T3 stores what comes in one turn as one transaction, and answers each with its own effect', async () => {
    const { add, writes } = store();
    const all = ['a', 'b', 'c'].map((id) => add(id));
    expect(writes).toEqual([]);
    expect(await Promise.all(all)).toEqual(['repeat', 'new', 'new']);
    expect(writes).toEqual([['a', 'b', 'c']]);
  });

  it('F178 gives up on each item when its own patience is over, and never says that it was stored', async () => {
    const { add, clock, state, writes } = store();
    state.locked = true;
    const early = add('early');
    await clock.advance(500);
    const late = add('late');
    early.catch(() => undefined);
    await clock.advance(310);
    await expect(early).rejects.toBe(BUSY);
    state.locked = false;
    await clock.advance(60);
    expect(await late).toBe('new');
    expect(writes).toEqual([['late']]);
  });

  it('tells each when its patience is over although the database says nothing', async () => {
    const { add, clock, state } = store();
    state.answers = Promise.withResolvers<void>().promise;
    const hasty = add('hasty');
    await clock.advance(900);
    expect(await hasty).toBe('overloaded');
  });

  it('refuses at once what would wait behind too many others', async () => {
    const { add, clock, state } = store({ maxWaiting: 2 });
    state.locked = true;
    const waiting = ['a', 'b'].map((id) => add(id));
    expect(await add('c')).toBe('overloaded');
    state.locked = false;
    await clock.advance(30);
    expect(await Promise.all(waiting)).toEqual(['repeat', 'new']);
  });

  it('stores the others of a group of which one cannot be stored', async () => {
    const { add, state } = store();
    state.refused.add('b');
    const [a, b, c] = await Promise.allSettled(['a', 'b', 'c'].map((id) => add(id)));
    expect([a, c]).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }]);
    expect(b).toMatchObject({ status: 'rejected', reason: { message: 'cannot be bound' } });
  });
});
