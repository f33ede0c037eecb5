import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { readAddress } from '../../../../src/settings/warehouse-address.ts';
import type { Step } from '../../../../src/warehouse/postgres/connection/batch.ts';
import {
  commitSteps,
  type CommitUnderWay,
  type SentCommit,
} from '../../../../src/warehouse/postgres/connection/commit-steps.ts';
import { borrowDatabase } from '../../../../src/warehouse/postgres/connection/pools.ts';
import type { Database } from '../../../../src/warehouse/postgres/connection/transact.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';
import { flakyProxy } from '../../../support/flaky-proxy.ts';
import { transactionPooler } from '../../../support/transaction-pooler.ts';

type Through = (address: string) => string;

/** A database with a table `t` that takes a number any number of times, reached `through` something. */
async function stageOn(through: (address: string) => Promise<Through> = () => Promise.resolve((same) => same)) {
  const { address } = await warehouseOn(POSTGRES);
  await asOtherClient(address, (client) => client.query('CREATE TABLE t (at bigserial, n bigint, CHECK (n < 100))'));
  const place = readAddress((await through(address))(address));
  if (place?.kind !== 'postgres') throw new Error('no address of Postgres');
  const { database, release } = borrowDatabase(place, systemClock);
  onTestFinished(release);
  /** How many attempts were sent behind one that was unanswered. */
  let followed = 0;
  const commit = (steps: () => readonly Step[], behind?: CommitUnderWay): CommitUnderWay => {
    const { promise: sent, resolve } = Promise.withResolvers<SentCommit | null>();
    const whole = commitSteps(database, steps, { sent: resolve, ...(behind === undefined ? {} : { behind }) });
    const over = (): void => resolve(null);
    whole.then(over, over);
    const count = async (): Promise<SentCommit | null> => {
      const [before, attempt] = [await behind?.sent, await sent];
      if (attempt !== null && before?.mark.next === attempt.mark) followed += 1;
      return attempt;
    };
    return { sent: count(), whole };
  };
  const insert = (n: number, behind?: CommitUnderWay): CommitUnderWay => commit(() => [inserted(n)], behind);
  const standing = () =>
    asOtherClient(address, async (client) => {
      const { rows } = await client.query<{ n: string }>('SELECT n FROM t ORDER BY at');
      return rows.map(({ n }) => Number(n));
    });
  return { address, database, commit, insert, standing, followed: () => followed };
}

const inserted = (n: number): Step => ({ text: 'INSERT INTO t (n) VALUES ($1)', values: [n] });

/** Inserts the numbers, each behind the one before it. */
async function inLine(insert: (n: number, behind?: CommitUnderWay) => CommitUnderWay, numbers: readonly number[]) {
  let behind: CommitUnderWay | undefined;
  const all: Promise<void>[] = [];
  for (const n of numbers) {
    behind = insert(n, behind);
    all.push(behind.whole);
    await behind.sent;
  }
  return Promise.allSettled(all);
}

/** Resolves once no connection is lent any more. */
async function allGivenBack({ pool }: Pick<Database, 'pool'>): Promise<void> {
  await vi.waitUntil(() => pool.totalCount === pool.idleCount, { timeout: 10_000, interval: 10 });
}

const NUMBERS = [1, 2, 3, 4, 5, 6];
/** Messages of the server before and while it answers two of these transactions, at the least. */
const MOST_MESSAGES = 45;

describe.skipIf(POSTGRES.missing !== null)(
  'transactions that follow each other unanswered',
  { timeout: 60_000 },
  () => {
    it('are sent before the one before is answered, and all are there in their order', async () => {
      const { address, insert, standing, followed } = await stageOn();
      await inLine(insert, [1, 2]);
      await asOtherClient(address, async (client) => {
        await client.query('BEGIN; LOCK TABLE t IN SHARE MODE');
        const first = insert(3);
        const second = insert(4, first);
        // Neither has an answer: the first one waits for the lock.
        expect((await second.sent)?.mark.last).toBe((await first.sent)?.mark.mark);
        await client.query('COMMIT');
        await Promise.all([first.whole, second.whole]);
      });
      expect(await standing()).toEqual([1, 2, 3, 4]);
      expect(followed()).toBeGreaterThan(0);
    });

    it('F138 are each committed once, whichever message the connection is lost at', async () => {
      let [seen, cutAt] = [0, 0];
      const { insert, standing, database } = await stageOn(async (address) => {
        const { through } = await flakyProxy(address, ({ letter }) => letter !== 'R' && (seen += 1) === cutAt);
        return through;
      });
      const expected: number[] = [];
      for (let at = 1; at <= MOST_MESSAGES; at += 1) {
        // The connection is there and has its mark, so that what follows is sent unanswered.
        await insert(0).whole;
        [seen, cutAt] = [0, at];
        const ended = await inLine(insert, NUMBERS);
        expect({ at, ended: ended.map(({ status }) => status) }).toEqual({ at, ended: NUMBERS.map(() => 'fulfilled') });
        expected.push(0, ...NUMBERS);
        cutAt = 0;
      }
      expect(await standing()).toEqual(expected);
      await allGivenBack(database);
    });

    it('are refused with one that fails, and committed behind it once it is there', async () => {
      const { commit, insert, standing, database, followed } = await stageOn();
      await insert(0).whole;
      let attempts = 0;
      const failsOnce = (): Step[] => [
        inserted(1),
        // As if another session had been in the way.
        ...((attempts += 1) === 1 ? [{ text: `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$` }] : []),
      ];
      const first = commit(failsOnce);
      const second = insert(2, first);
      await Promise.all([first.whole, second.whole]);
      expect([attempts, followed()]).toEqual([2, 1]);
      expect(await standing()).toEqual([0, 1, 2]);
      await allGivenBack(database);
    });

    it('fail with one that fails for good, and nothing of them is there', async () => {
      const { insert, standing, database } = await stageOn();
      await insert(0).whole;
      const [one, two, three] = await inLine(insert, [1, 100, 2]);
      expect(one?.status).toBe('fulfilled');
      expect(two).toMatchObject({ status: 'rejected', reason: { code: '23514' } });
      expect(three).toEqual(two);
      expect(await standing()).toEqual([0, 1]);
      await inLine(insert, [2, 3]);
      expect(await standing()).toEqual([0, 1, 2, 3]);
      await allGivenBack(database);
    });

    it('keep what is committed where only the later one fails', async () => {
      const { insert, standing } = await stageOn();
      await insert(0).whole;
      const [one, two] = await inLine(insert, [1, 100]);
      expect([one?.status, two?.status]).toEqual(['fulfilled', 'rejected']);
      expect(await standing()).toEqual([0, 1]);
    });

    it('wait for their answers behind a pooler that lends connections by the transaction', async () => {
      const { insert, standing, followed } = await stageOn(
        async (address) => (await transactionPooler(address, 2)).through,
      );
      await inLine(insert, NUMBERS);
      expect(await standing()).toEqual(NUMBERS);
      expect(followed()).toBe(0);
    });

    it('give the connection back where somebody waits for one', async () => {
      const { insert, standing, database } = await stageOn();
      await insert(0).whole;
      const held = await Promise.all(
        Array.from({ length: (database.pool.options.max ?? 10) - 1 }, () => database.pool.connect()),
      );
      const first = insert(1);
      await first.sent;
      const waiting = database.pool.connect();
      await vi.waitUntil(() => database.pool.waitingCount === 1);
      const second = insert(2, first);
      (await waiting).release();
      await second.whole;
      for (const client of held) client.release();
      expect(await standing()).toEqual([0, 1, 2]);
    });
  },
);
