import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { readAddress } from '../../../../src/config/warehouse-address.ts';
import type { Step } from '../../../../src/database/postgres/connection/session.ts';
import { transact } from '../../../../src/database/postgres/connection/transact.ts';
import { borrowDatabase } from '../../../../src/database/postgres/connection/pools.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';
import { flakyProxy } from '../../../support/flaky-proxy.ts';
import { transactionPooler } from '../../../support/transaction-pooler.ts';

type Through = (address: string) => string;

/** A database with a table `t` that accepts a number any number of times, reached `through` a proxy. */
async function stageOn(through: (address: string) => Promise<Through> = () => Promise.resolve((same) => same)) {
  const { address } = await warehouseOn(POSTGRES);
  await asOtherClient(address, (client) => client.query('CREATE TABLE t (at bigserial, n bigint, CHECK (n < 100))'));
  const place = readAddress((await through(address))(address));
  if (place?.kind !== 'postgres') throw new Error('no address of Postgres');
  const { database, release } = borrowDatabase(place, systemClock);
  onTestFinished(release);
  const commit = (steps: () => readonly Step[]): Promise<unknown> =>
    transact(database, (session) => session.runAll(steps()));
  const insert = (n: number): Promise<unknown> => commit(() => [inserted(n)]);
  const stored = () =>
    asOtherClient(address, async (client) => {
      const { rows } = await client.query<{ n: string }>('SELECT n FROM t ORDER BY at');
      return rows.map(({ n }) => Number(n));
    });
  const allReleased = async (): Promise<void> => {
    await vi.waitUntil(() => database.pool.totalCount === database.pool.idleCount, { timeout: 10_000, interval: 10 });
  };
  return { commit, insert, stored, allReleased };
}

const inserted = (n: number): Step => ({ text: 'INSERT INTO t (n) VALUES ($1)', values: [n] });

const NUMBERS = [1, 2, 3];
/** Messages of the server while it answers one of these transactions, at the least. */
const MIN_MESSAGES = 25;

describe.skipIf(POSTGRES.missing !== null)('transactions', { timeout: 60_000 }, () => {
  it('F138 are each committed once, whichever message the connection is lost at', async () => {
    let [seen, cutAt] = [0, 0];
    const { insert, stored, allReleased } = await stageOn(async (address) => {
      const { through } = await flakyProxy(address, ({ letter }) => letter !== 'R' && (seen += 1) === cutAt);
      return through;
    });
    const expected: number[] = [];
    for (let at = 1; at <= MIN_MESSAGES; at += 1) {
      await insert(0);
      [seen, cutAt] = [0, at];
      for (const n of NUMBERS) await insert(n);
      expected.push(0, ...NUMBERS);
      cutAt = 0;
    }
    expect(await stored()).toEqual(expected);
    await allReleased();
  });

  it('are tried again if another session was in the way', async () => {
    const { commit, stored, allReleased } = await stageOn();
    let attempts = 0;
    await commit(() => [
      inserted(1),
      ...((attempts += 1) === 1 ? [{ text: `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$` }] : []),
    ]);
    expect([attempts, await stored()]).toEqual([2, [1]]);
    await allReleased();
  });

  it('go through a pooler that lends connections by the transaction', async () => {
    const { insert, stored } = await stageOn(async (address) => (await transactionPooler(address, 2)).through);
    for (const n of NUMBERS) await insert(n);
    expect(await stored()).toEqual(NUMBERS);
  });
});
