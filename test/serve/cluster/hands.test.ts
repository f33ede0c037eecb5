import { describe, expect, it, onTestFinished } from 'vitest';
import { countHands, type Hands } from '../../../src/serve/cluster/hands.ts';
import { POSTGRES, SQLITE, preparedPostgres } from '../../support/databases.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';

function hands(address: string): Hands {
  const counted = countHands(address, hurriedClock(20));
  onTestFinished(() => counted.stop());
  return counted;
}

describe.skipIf(POSTGRES.missing !== null)('the processes that take work of a database', () => {
  it('are counted from the moment at which they come until they go', async () => {
    const address = `${await preparedPostgres()}?schema=blog`;
    const [one, two] = [hands(address), hands(address)];
    await two.count();
    expect([await one.count(), await two.count()]).toEqual([2, 2]);
    await two.stop();
    expect(await one.count()).toBe(1);
  });
});

it('are one where no other process can be, or the server is away', async () => {
  expect(await hands(await SQLITE.address()).count()).toBe(1);
  expect(await hands('postgres://127.0.0.1:1/nowhere?schema=blog').count()).toBe(1);
});
