import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { answerMemory, createAnswerMemory } from '../../../src/http/body/answer-memory.ts';
import { newMeter } from '../../../src/http/client.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { clientFor, errorOf, serve, testProfile } from '../stage.ts';

const MIB = 2 ** 20;

describe('a client', () => {
  const body = JSON.stringify({ data: [{ id: 1, text: 'x'.repeat(2 * MIB) }] });

  async function stage(memory = createAnswerMemory(20 * MIB)) {
    const { origin } = await serve((_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(body);
    });
    const client = clientFor(origin, { profile: testProfile({ http: { timeout: '20s' } }) });
    const get = (rest = {}) =>
      client.get({
        url: new URL(`${origin}/v1/content`),
        lane: 'backfill',
        meter: newMeter(),
        hold: memory.open(),
        ...rest,
      });
    return { memory, get };
  }

  it('gives the memory of an answer back, or leaves that to whoever asked for the answer to be held', async () => {
    const { memory, get } = await stage();
    await get({ hold: undefined });
    expect(answerMemory.taken).toBe(0);
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

  it('refuses an answer that would need more than all the memory, and says what to do', async () => {
    const { memory, get } = await stage(createAnswerMemory(4 * MIB));
    const error = await errorOf(get());
    expect(error).toMatchObject({ code: 'body_too_heavy', recovery: 'stop' });
    expect(error.hint).toContain('--max-old-space-size');
    expect(memory.taken).toBe(0);
  });
});
