import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Turns } from '../../src/state/turns.ts';

/** Turns that note what they do; what they send is answered when the test says so. */
function noted() {
  const turns = new Turns();
  const done: string[] = [];
  const answers = new Map<string, PromiseWithResolvers<string>>();
  const send = (sender: object, name: string) => {
    const answer = Promise.withResolvers<string>();
    answers.set(name, answer);
    return turns.send(sender, () => {
      done.push(name);
      return Promise.resolve({ answer: answer.promise });
    });
  };
  const take = (name: string): Promise<void> =>
    turns.take(() => {
      done.push(name);
      return Promise.resolve();
    });
  const settle = async (): Promise<string[]> => {
    for (let at = 0; at < 5; at += 1) await nextTurn();
    return done;
  };
  return { turns, send, take, settle, answers };
}

describe('turns', () => {
  it('of a sender begin before the one before is answered, two of them at once', async () => {
    const { turns, send, settle, answers } = noted();
    const walk = {};
    const sent = ['1', '2', '3', '4'].map((name) => send(walk, name));
    await Promise.all(sent.slice(0, 2).map((turn) => turn.sent));
    expect(await settle()).toEqual(['1', '2']);
    expect([turns.begun, turns.oldest]).toEqual([2, 1]);
    answers.get('1')?.resolve('one');
    expect(await settle()).toEqual(['1', '2', '3']);
    expect([turns.begun, turns.oldest]).toEqual([3, 2]);
    for (const [name, { resolve }] of answers) resolve(name);
    expect(await Promise.all(sent.map(({ answered }) => answered))).toEqual(['one', '2', '3', '4']);
    expect([turns.begun, turns.oldest]).toEqual([4, 4]);
  });

  it('of others wait until all is answered, and keep their place', async () => {
    const { send, take, settle, answers } = noted();
    const [walk, other] = [{}, {}];
    send(walk, '1');
    const taken = take('2');
    send(walk, '3');
    send(other, '4');
    expect(await settle()).toEqual(['1']);
    answers.get('1')?.resolve('');
    await taken;
    expect(await settle()).toEqual(['1', '2', '3']);
    answers.get('3')?.resolve('');
    expect(await settle()).toEqual(['1', '2', '3', '4']);
  });

  it('go on after one that has failed, or whose answer has', async () => {
    const { turns, send, take, settle, answers } = noted();
    const failed = turns.send({}, () => Promise.reject(new Error('not sent')));
    await expect(failed.sent).rejects.toThrow('not sent');
    await expect(failed.answered).rejects.toThrow('not sent');
    const { sent, answered } = send({}, '1');
    await sent;
    const all = turns.allAnswered();
    void take('2');
    answers.get('1')?.reject(new Error('refused'));
    await expect(answered).rejects.toThrow('refused');
    await all;
    expect(await settle()).toEqual(['1', '2']);
  });
});
