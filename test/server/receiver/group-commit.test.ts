import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { GroupCommit } from '../../../src/server/receiver/group-commit.ts';
import { HandClock } from '../../support/hand-clock.ts';

const BUSY = new SyncError('warehouse_busy', 'locked', { recovery: 'stop' });

/** A store that can be locked and that refuses some items; each write is a list of items. */
function store() {
  const clock = new HandClock();
  const writes: string[][] = [];
  const state = { locked: false, refused: new Set<string>(), answers: Promise.resolve() };
  const write = async (items: readonly string[]): Promise<string[]> => {
    await state.answers;
    if (state.locked) throw BUSY;
    if (items.some((item) => state.refused.has(item))) throw new Error('cannot be bound');
    writes.push([...items]);
    return items.map((item) => `${item} is in`);
  };
  const commits = new GroupCommit({ write, mayPass: (error: unknown) => error === BUSY, clock });
  return { clock, writes, state, commits };
}

const TERMS = { timeoutMs: 800 };

describe('a group commit', () => {
  it('T3 stores what comes in one turn as one transaction, and answers each with its own effect', async () => {
    const { commits, writes } = store();
    const all = ['a', 'b', 'c'].map((item) => commits.add(item, TERMS));
    expect(writes).toEqual([]);
    expect(await Promise.all(all)).toEqual(['a is in', 'b is in', 'c is in']);
    expect(writes).toEqual([['a', 'b', 'c']]);
  });

  it('F178 gives up on each item when its own patience is over, and never says that it was stored', async () => {
    const { commits, clock, state, writes } = store();
    state.locked = true;
    const early = commits.add('early', TERMS);
    const patient = commits.add('patient', { timeoutMs: 30_000 });
    await clock.advance(500);
    const late = commits.add('late', TERMS);
    early.catch(() => undefined);
    await clock.advance(310);
    await expect(early).rejects.toBe(BUSY);
    state.locked = false;
    await clock.advance(60);
    expect(await Promise.all([late, patient])).toEqual(['late is in', 'patient is in']);
    expect(writes).toEqual([['patient', 'late']]);
  });

  it('tells each when its patience is over although the database says nothing, and takes the answer that comes late', async () => {
    const { commits, clock, state, writes } = store();
    const answer = Promise.withResolvers<void>();
    state.answers = answer.promise;
    const hasty = commits.add('hasty', TERMS);
    const patient = commits.add('patient', { timeoutMs: 30_000 });
    const outcome = hasty.catch((error: unknown) => error);
    await clock.advance(500);
    const next = commits.add('next', TERMS).catch((error: unknown) => error);
    await clock.advance(400);
    expect(await outcome).toMatchObject({ code: 'inbox_slow' });
    await clock.advance(500);
    expect(await next).toMatchObject({ code: 'inbox_slow' });
    answer.resolve();
    expect(await patient).toBe('patient is in');
    // One was stored all the same, the other one had not begun.
    expect(writes).toEqual([['hasty', 'patient']]);
  });

  it('refuses at once what would wait behind too many others', async () => {
    const { commits, clock, state } = store();
    state.locked = true;
    const waiting = ['a', 'b'].map((item) => commits.add(item, { timeoutMs: 800, maxWaiting: 2 }));
    await expect(commits.add('c', { timeoutMs: 800, maxWaiting: 2 })).rejects.toMatchObject({
      code: 'inbox_overloaded',
    });
    // What may wait longer is not bound by it.
    const settled = commits.add('d', { timeoutMs: 800 });
    state.locked = false;
    await clock.advance(30);
    expect(await Promise.all([...waiting, settled])).toEqual(['a is in', 'b is in', 'd is in']);
  });

  it('stores the others of a group of which one cannot be stored', async () => {
    const { commits, state } = store();
    state.refused.add('b');
    const [a, b, c] = await Promise.allSettled(['a', 'b', 'c'].map((item) => commits.add(item, TERMS)));
    expect([a, c]).toEqual([
      { status: 'fulfilled', value: 'a is in' },
      { status: 'fulfilled', value: 'c is in' },
    ]);
    expect(b).toMatchObject({ status: 'rejected', reason: { message: 'cannot be bound' } });
  });
});
