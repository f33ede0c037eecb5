import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createAnswerMemory, type AnswerHold } from '../../../src/http/body/answer-memory.ts';
import { newMeter } from '../../../src/http/client.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { clientFor, errorOf, serve, testProfile } from '../stage.ts';

const MIB = 2 ** 20;

describe('the memory of answers', () => {
  it('is shared by all answers, except for small ones', () => {
    const memory = createAnswerMemory(10 * MIB);
    const [first, second, small] = [memory.open(), memory.open(), memory.open()];
    first.resize(8 * MIB);
    expect(() => second.resize(3 * MIB)).toThrow(expect.objectContaining({ code: 'memory_full', recovery: 'retry' }));
    small.resize(2 * MIB);
    expect(memory.taken).toBe(10 * MIB);
    first.release();
    first.release();
    second.resize(8 * MIB);
    expect(memory.taken).toBe(10 * MIB);
  });

  it('has room for one more, in the order in which they wait', async () => {
    const memory = createAnswerMemory(10 * MIB);
    const clock = new HandClock();
    const [first, second, third] = [memory.open(), memory.open(), memory.open()];
    memory.open().resize(10 * MIB);
    const order: string[] = [];
    const turnOf = async (name: string, hold: AnswerHold): Promise<void> => {
      await hold.takeTurn(clock, 1_000);
      hold.resize(10 * MIB);
      order.push(name);
    };
    const turns = [turnOf('first', first), turnOf('second', second), turnOf('third', third)];
    await nextTurn();
    expect(order).toEqual(['first']);
    expect(memory.taken).toBe(20 * MIB);
    first.release();
    await nextTurn();
    second.release();
    await Promise.all(turns);
    expect(order).toEqual(['first', 'second', 'third']);
    expect(clock.sleeping).toBe(0);
  });

  it('is waited for so long and no longer, and those behind do not wait for who gave up', async () => {
    const memory = createAnswerMemory(10 * MIB);
    const clock = new HandClock();
    const [first, second, third] = [memory.open(), memory.open(), memory.open()];
    await first.takeTurn(clock, 1_000);
    const gaveUp = errorOf(second.takeTurn(clock, 1_000));
    await clock.advance(500);
    const patient = third.takeTurn(clock, 1_000);
    await clock.advance(600);
    expect((await gaveUp).code).toBe('memory_full');
    first.release();
    await patient;
    expect(() => third.resize(10 * MIB)).not.toThrow();
  });

  it('is not waited for any longer once the work is aborted', async () => {
    const memory = createAnswerMemory(10 * MIB);
    const stop = new AbortController();
    await memory.open().takeTurn(new HandClock(), 1_000);
    const waiting = memory.open().takeTurn(new HandClock(), 1_000, stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});

describe('a client', () => {
  const body = JSON.stringify({ data: [{ id: 1, text: 'x'.repeat(2 * MIB) }] });

  async function stage(memory = createAnswerMemory(20 * MIB)) {
    const { origin } = await serve((_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(body);
    });
    const client = clientFor(origin, { memory, profile: testProfile({ http: { timeout: '20s' } }) });
    const get = (rest = {}) =>
      client.get({ url: new URL(`${origin}/v1/content`), lane: 'backfill', meter: newMeter(), ...rest });
    return { memory, get };
  }

  it('gives the memory of an answer back, or leaves that to whoever asked for the answer to be held', async () => {
    const { memory, get } = await stage();
    await get();
    expect(memory.taken).toBe(0);
    const hold = memory.open();
    await get({ hold });
    expect(memory.taken).toBeGreaterThan(6 * MIB);
    hold.release();
    expect(memory.taken).toBe(0);
  });

  it('waits outside of its slot until there is memory, and asks again', async () => {
    const { memory, get } = await stage();
    const other = memory.open();
    other.resize(20 * MIB);
    const turn = memory.open();
    await turn.takeTurn(new HandClock(), 1);
    const meter = newMeter();
    const answer = get({ meter });
    while (meter.requests === 0 || memory.taken > 20 * MIB) await nextTurn();
    turn.release();
    expect((await answer).bytes.length).toBe(body.length);
    expect(meter).toMatchObject({ requests: 2, retries: 1 });
  });

  it('fails at once where the answer is not to be waited for', async () => {
    const { memory, get } = await stage();
    memory.open().resize(20 * MIB);
    expect(await errorOf(get({ whenFull: 'fail' }))).toMatchObject({ code: 'memory_full', recovery: 'retry' });
    expect(memory.taken).toBe(20 * MIB);
  });

  it('refuses an answer that would take more than all the memory, and says what to do', async () => {
    const { memory, get } = await stage(createAnswerMemory(4 * MIB));
    const error = await errorOf(get());
    expect(error).toMatchObject({ code: 'body_too_heavy', recovery: 'stop' });
    expect(error.hint).toContain('--max-old-space-size');
    expect(memory.taken).toBe(0);
  });
});
