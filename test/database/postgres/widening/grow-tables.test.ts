import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../../src/database/databases.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asOtherClient, POSTGRES, preparedAddress } from '../../../support/databases.ts';
import { loading } from '../../../support/page-loading.ts';
import { madeByPeople, peoplesOwn } from '../../../support/made-by-people.ts';
import { BIG, LEFT_OVER, scoreTable, SMALL, SUMS, sumsOf, WIDER } from '../../../support/score-table.ts';

/** What readers may be made to wait at most. */
const MOST_WAIT_MS = 2_000;
const SIZES = [
  { size: 'small', rows: SMALL },
  { size: 'big', rows: BIG },
] as const;

describe.skipIf(POSTGRES.missing !== null)('tables that grow on Postgres', () => {
  it.each(SIZES)('keep what people made on a $size one through a widening', async ({ size, rows }) => {
    const { address, load } = await scoreTable(rows);
    const role = `reader_of_${size}_${process.pid}`;
    await asOtherClient(address, (client) => client.query(madeByPeople(role)));
    const before = await peoplesOwn(address);
    await load([WIDER]);
    expect(await peoplesOwn(address)).toEqual(before);
    expect(await rowsOf(address, 'SELECT * FROM best')).toEqual([{ top: String(rows - 1) }]);
    expect(await rowsOf(address, 'SELECT count(*)::int AS n FROM kept')).toEqual([{ n: rows }]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(rows, 1)]);
    expect(await rowsOf(address, LEFT_OVER)).toEqual([]);
  });

  it.each(SIZES)('F135 a $size one is read all the while, in whole states only', async ({ rows }) => {
    const { address, load } = await scoreTable(rows);
    const stop = new AbortController();
    const reading = asOtherClient(address, (client) => poll(client, stop.signal));
    await load([WIDER]);
    stop.abort();
    const { longestMs, seen } = await reading;
    expect(longestMs).toBeLessThan(MOST_WAIT_MS);
    const whole = new Set([sumsOf(rows), sumsOf(rows, 1)].map((sums) => JSON.stringify(sums)));
    expect([...seen].filter((sums) => !whole.has(sums))).toEqual([]);
  });

  it('F135 a statement that is open keeps its table as it was, and nobody waits behind the widening for long', async () => {
    const { address, load } = await scoreTable(SMALL);
    await asOtherClient(address, async (holder) => {
      await holder.query('BEGIN');
      await holder.query('DECLARE rows CURSOR FOR SELECT * FROM content ORDER BY id');
      const first = await holder.query('FETCH 3 FROM rows');
      const stop = new AbortController();
      const reading = asOtherClient(address, (client) => poll(client, stop.signal));
      const loaded = load(['{"id":"wider","score":"five","rate":"low","added":true}']);
      await sleep(2_500);
      const rest = await holder.query('FETCH ALL FROM rows');
      expect(first.rows.length + rest.rows.length).toBe(SMALL);
      expect(rest.fields.map(({ name }) => name)).toEqual(first.fields.map(({ name }) => name));
      expect(rest.rows[0]).toHaveProperty('score');
      await holder.query('COMMIT');
      await loaded;
      stop.abort();
      const { longestMs, seen } = await reading;
      expect(longestMs).toBeLessThan(MOST_WAIT_MS);
      expect(seen.size).toBeLessThanOrEqual(2);
    });
    expect(await rowsOf(address, 'SELECT score, added FROM content WHERE added')).toEqual([
      { score: 'five', added: true },
    ]);
  });

  it('F110 bear names as long as names get, with an index and a key of their own', async () => {
    const address = await preparedAddress(POSTGRES);
    const warehouse = await openWarehouse(address, systemClock);
    onTestFinished(() => warehouse.close());
    const resource = `a${'b'.repeat(61)}`;
    const lists = ['one', 'two'].map((end) => `"${'l'.repeat(80)}_${end}":["${end}"]`);
    for (const name of [`${resource}c`, `${resource}d`]) {
      const { load } = await loading(warehouse, { resource: name, resources: [`${resource}c`, `${resource}d`] });
      await load([`{"id":"1",${lists.join(',')},"pkey":["p"]}`]);
    }
    const indexes = await rowsOf(address, "SELECT indexname FROM pg_indexes WHERE indexname LIKE '\\_sync\\_deleted%'");
    expect(indexes).toHaveLength(2);
    const keys = await rowsOf(address, "SELECT conname FROM pg_constraint WHERE conname LIKE '\\_sync\\_key%'");
    expect(keys).toHaveLength(8);
  });

  it('say of themselves what they are', async () => {
    const { address, load } = await scoreTable(SMALL);
    await load(['{"id":"more","added":1}']);
    const rows = await rowsOf(
      address,
      `SELECT attname AS name, col_description(attrelid, attnum) AS comment FROM pg_attribute
       WHERE attrelid = 'content'::regclass AND attnum > 0 ORDER BY attname`,
    );
    expect(Object.fromEntries(rows.map(({ name, comment }) => [name, comment]))).toMatchObject({
      id: 'The key of the content record.',
      added: 'Field added of the content record.',
      score: 'Field score of the content record.',
      _synced_at: expect.stringContaining('asked'),
      _deleted_at: expect.stringContaining('no longer'),
    });
    expect(
      await rowsOf(
        address,
        "SELECT obj_description('content_tags'::regclass) AS comment, obj_description('content'::regclass) AS own",
      ),
    ).toEqual([{ comment: expect.stringContaining('Lists'), own: expect.stringContaining('content records') }]);
  });
});

/** Asks again and again; how long the longest answer took, and what the answers were. */
async function poll(client: Client, signal: AbortSignal): Promise<{ longestMs: number; seen: Set<string> }> {
  const seen = new Set<string>();
  let longestMs = 0;
  while (!signal.aborted) {
    const started = performance.now();
    const { rows } = await client.query<Record<string, unknown>>(SUMS);
    longestMs = Math.max(longestMs, performance.now() - started);
    seen.add(JSON.stringify(rows[0]));
    await sleep(10);
  }
  return { longestMs, seen };
}
