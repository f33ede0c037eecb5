import { describe, expect, it } from 'vitest';
import { Pool, type PoolClient } from 'pg';
import { Batch } from '../../../../src/warehouse/postgres/connection/session.ts';
import {
  isCommitted,
  keepMark,
  leaveMark,
  newMark,
  type CommitMark,
} from '../../../../src/warehouse/postgres/connection/transact.ts';
import { POSTGRES, warehouseOn } from '../../../support/databases.ts';

const SETTINGS = ['public', 10_000, 10_000, 10_000];

/** Two connections to a database that has its marks. */
async function twoClients<T>(work: (one: PoolClient, other: PoolClient) => Promise<T>): Promise<T> {
  const { address } = await warehouseOn(POSTGRES);
  const url = new URL(address);
  url.searchParams.delete('schema');
  const pool = new Pool({ connectionString: url.href });
  // The server may end them before they have ended themselves: the test's database is dropped behind it.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const [one, other] = [await pool.connect(), await pool.connect()];
  try {
    return await work(one, other);
  } finally {
    one.release(true);
    other.release(true);
    await pool.end();
  }
}

const COMMIT = { text: 'COMMIT' };

function leave(client: PoolClient, mark: CommitMark, ...more: readonly { text: string }[]): Promise<unknown> {
  return client.query(new Batch([{ text: 'BEGIN' }, leaveMark(mark, SETTINGS), ...more], 10_000)).done;
}

async function asked(mark: CommitMark, client: PoolClient): Promise<boolean> {
  return isCommitted(mark, async (text, values) => client.query(text, [...(values ?? [])]));
}

describe.skipIf(POSTGRES.missing !== null)('the mark of a transaction', () => {
  it('is waited for while it is being committed, and said again however often it is asked for', async () => {
    await twoClients(async (one, other) => {
      for (const end of ['COMMIT', 'ROLLBACK']) {
        const mark = newMark(one);
        await leave(one, mark);
        const answer = asked(mark, other);
        await one.query(end);
        const isThere = end === 'COMMIT';
        expect([await answer, await asked(mark, other), await asked(mark, other)]).toEqual([isThere, isThere, isThere]);
      }
    });
  });

  it('cannot be left any more once it was asked for, by the first transaction of a connection or a later one', async () => {
    await twoClients(async (one, other) => {
      for (const before of [0, 1, 2]) {
        for (let at = 0; at < before; at += 1) {
          const mark = newMark(one);
          await leave(one, mark, COMMIT);
          keepMark(one, mark);
        }
        const late = newMark(one);
        expect(late.last === null).toBe(before === 0);
        expect(await asked(late, other)).toBe(false);
        await expect(leave(one, late, COMMIT)).rejects.toMatchObject({ code: '40001' });
        await one.query('ROLLBACK');
        expect(await asked(late, other)).toBe(false);
      }
    });
  });
});
