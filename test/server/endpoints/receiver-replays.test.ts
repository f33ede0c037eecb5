import { describe, expect, it } from 'vitest';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { webhookSchema } from '../../../src/config/settings.ts';
import { DATABASES, type TestDatabase } from '../../support/databases.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { settlement } from '../../database/deliveries.ts';
import { receiverStage, send, signed, type Stage } from './receiver-stage.ts';

const NOW = Date.parse('2026-11-20T08:00:00Z');

const bodyOf = (size: number, number: number): string => JSON.stringify({ n: number, pad: 'x'.repeat(size) });

/** A receiver that lets so much wait. */
function small(database: TestDatabase, limits: object, signature = 'standard-webhooks'): Promise<Stage> {
  const value = signature === 'standard-webhooks' ? `whsec_${Buffer.alloc(32, 7).toString('base64')}` : 'abc';
  const webhook = webhookSchema.parse({ secrets: [value], ...limits });
  return receiverStage({
    database,
    clock: new HandClock('2026-11-20T08:00:00.000Z'),
    source: { webhook, webhooks: { signature } },
  });
}

/** Has all that waits worked on. */
async function workOff(stage: Stage): Promise<void> {
  const finished_at = timestampText(NOW);
  const waiting = (await stage.rows()).filter(({ state }) => state === 'waiting');
  await stage.receiver.inbox('blog').settle(waiting.map(({ seq }) => settlement(seq, 'done', { finished_at })));
}

describe.for(DATABASES)('a captured delivery on $name', (database) => {
  it('whose id and time nobody has signed is one row, however many ids it is posted under', async () => {
    const stage = await small(database, {}, 'github');
    const captured = signed(stage.source, { at: NOW, id: 'real' });
    for (let post = 0; post < 20; post += 1) {
      const headers = { ...captured.headers, 'x-github-delivery': `forged_${post}` };
      expect((await send(stage.port, { ...captured, headers })).status).toBe(202);
    }
    expect(await stage.rows()).toEqual([expect.objectContaining({ repeats: 19, state: 'waiting' })]);
  });
});

describe.for(DATABASES)('deliveries that wait on $name', (database) => {
  it('are at most so many: further ones are refused with 503 and Retry-After, until some were worked on', async () => {
    const stage = await small(database, { max_waiting: 3 });
    const one = async (id: string): Promise<number> =>
      (await send(stage.port, signed(stage.source, { at: NOW, id }))).status;
    for (const id of ['a', 'b', 'a', 'b', 'c']) expect(await one(id)).toBe(202);
    const answer = await send(stage.port, signed(stage.source, { at: NOW, id: 'd' }));
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '60']);
    expect((await stage.rows()).length).toBe(3);
    expect(stage.results).toMatchObject({ inbox_full: 1 });
    await workOff(stage);
    await stage.receiver.inbox('blog').figures();
    expect(await one('d')).toBe(202);
  });

  it('take up at most so many bytes, also where many come at once while they are counted', async () => {
    const stage = await small(database, { max_waiting_size: '10kB' });
    const sent = Array.from({ length: 20 }, async (_, number) => {
      const answer = send(stage.port, signed(stage.source, { at: NOW, body: bodyOf(1_000, number) }));
      for (let count = 0; count < 5; count += 1) await stage.receiver.inbox('blog').figures();
      return answer;
    });
    const answers = await Promise.all(sent);
    expect(answers.filter(({ status }) => status === 202).length).toBeOneOf([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(answers.filter(({ status }) => status !== 202).every(({ status }) => status === 503)).toBe(true);
    // Those that were stored during a count may count twice until the next one, which the hand clock never makes due.
    await stage.receiver.inbox('blog').figures();
    expect((await send(stage.port, signed(stage.source, { at: NOW, body: '{}' }))).status).toBe(202);
  });

  it('leave room again for as much as came twice', async () => {
    const stage = await small(database, { max_waiting: 2 });
    const delivery = signed(stage.source, { at: NOW, id: 'a' });
    for (let repeat = 0; repeat < 5; repeat += 1) expect((await send(stage.port, delivery)).status).toBe(202);
    expect((await send(stage.port, signed(stage.source, { at: NOW, id: 'b' }))).status).toBe(202);
    expect((await send(stage.port, signed(stage.source, { at: NOW, id: 'c' }))).status).toBe(503);
  });
});
