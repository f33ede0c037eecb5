import type { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SyncError } from '../../../../src/model/errors.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import type { Inbox, InboxEffect } from '../../../../src/database/inbox.ts';
import type { InboxOptions } from '../../../../src/database/database.ts';
import { openInbox } from '../../../../src/database/databases.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { flakyProxy } from '../../../support/flaky-proxy.ts';
import { isCommitted } from '../../../support/postgres-wire.ts';
import { freshSeed, randomFrom } from '../../../support/random.ts';
import { delivery, settlement } from '../../deliveries.ts';

const seed = freshSeed();

async function openedFor(address: string, options?: InboxOptions): Promise<Inbox> {
  const inbox = await openInbox(address, systemClock, options);
  onTestFinished(() => inbox.close());
  return inbox;
}

/** Two that wait for each other are told so; on a busy machine now and then one that only waits too long. */
const MOST_BUSY = 4;

/** Writes again what found others in its way, and counts how often. */
function countingBusy() {
  let count = 0;
  async function again<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      if (!(error instanceof SyncError && error.code === 'warehouse_busy')) throw error;
      count += 1;
      return again(write);
    }
  }
  return { again, count: () => count };
}

/** Holds a transaction of another program open while `during` runs. */
function whileHolding<T>(address: string, statement: string, during: () => Promise<T>): Promise<T> {
  return asOtherClient(address, async (client: Client) => {
    await client.query('BEGIN');
    await client.query(statement);
    const result = await during();
    await client.query('COMMIT');
    return result;
  });
}

/** An inbox that asks for work by a row of a table, how many it has asked for, and a way to make that fail. */
async function asking(): Promise<{
  inbox: Inbox;
  asked: () => Promise<number>;
  fail: (error: Error | null) => void;
}> {
  const address = await POSTGRES.address();
  let failure: Error | null = null;
  const inbox = await openedFor(address, {
    requestDrain: async (execute) => {
      await execute('INSERT INTO asked VALUES (1)');
      if (failure !== null) throw failure;
    },
  });
  await asOtherClient(address, (client) => client.query('CREATE TABLE asked (n integer)'));
  const count = async (): Promise<number> =>
    asOtherClient(address, async (client) => (await client.query('SELECT 1 FROM asked')).rowCount ?? 0);
  return { inbox, asked: count, fail: (error) => void (failure = error) };
}

describe.skipIf(POSTGRES.missing !== null)('an inbox in a schema', () => {
  it('F140 F172 takes the same deliveries from several receivers at once: each is new once, and counted', async () => {
    const address = await POSTGRES.address();
    const inboxes = await Promise.all([1, 2, 3].map(() => openedFor(address)));
    const random = randomFrom(seed);
    const busy = countingBusy();
    const effects: InboxEffect[] = [];
    const shuffled = (ids: readonly string[]): string[] =>
      ids
        .map((id) => ({ id, at: random.next() }))
        .toSorted((one, other) => one.at - other.at)
        .map(({ id }) => id);
    for (let round = 0; round < 10; round += 1) {
      const ids = Array.from({ length: 60 }, (_, number) => `msg_${round}_${number}`);
      const orders = inboxes.map(() => shuffled(ids).map((id) => delivery(id)));
      const written = inboxes.map((inbox, at) => busy.again(() => inbox.write(orders[at] ?? [])));
      effects.push(...(await Promise.all(written)).flat());
    }
    expect(busy.count()).toBeLessThan(MOST_BUSY);
    expect(effects.filter((effect) => effect === 'new').length).toBe(600);
    expect(effects.length).toBe(1_800);
    const rows = (await inboxes[0]?.list({ limit: 9_999 })) ?? [];
    expect([rows.length, new Set(rows.map(({ repeats }) => repeats))]).toEqual([600, new Set([2])]);
  });

  it('F139 lets receivers and workers write the same rows at once, whatever their order', async () => {
    const address = await POSTGRES.address();
    const inboxes = await Promise.all([1, 2, 3, 4].map(() => openedFor(address)));
    const random = randomFrom(seed);
    const ids = Array.from({ length: 20 }, (_, number) => `msg_${number}`);
    await inboxes[0]?.write(ids.map((id) => delivery(id)));
    const busy = countingBusy();
    const writers = inboxes.map(async (inbox) => {
      for (let round = 0; round < 25; round += 1) {
        const repeats = Array.from({ length: 8 }, () => delivery(random.pick(ids), { is_id_sent: false }));
        const settled = Array.from({ length: 8 }, () => settlement(random.whole(1, 20), 'done'));
        if (random.chance(0.5)) await busy.again(() => inbox.settle(settled));
        else {
          await busy.again(() => inbox.write(repeats));
        }
      }
    });
    await Promise.all(writers);
    expect(busy.count()).toBeLessThan(MOST_BUSY);
    expect((await inboxes[0]?.list({ limit: 99 }))?.length).toBe(20);
  });

  it('F178 says soon that another program holds its table, and takes the next one', async () => {
    const address = await POSTGRES.address();
    const inbox = await openedFor(address);
    const began = performance.now();
    const refused = await whileHolding(address, 'LOCK TABLE _sync_deliveries', () =>
      inbox.write([delivery('a')]).catch((error: unknown) => error),
    );
    expect(refused).toMatchObject({ name: 'SyncError', code: 'warehouse_busy' });
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(await inbox.write([delivery('a')])).toEqual(['new']);
  });

  it('F138 knows what was committed although the answer got lost, and stores it once', async () => {
    const address = await POSTGRES.address();
    let left = 0;
    const proxy = await flakyProxy(address, (message) => isCommitted(message) && (left -= 1) === 0);
    const inbox = await openedFor(proxy.through(address));
    left = 2;
    expect(await inbox.write([delivery('a')])).toEqual(['new']);
    expect(await inbox.write([delivery('b')])).toEqual(['new']);
    expect(proxy.cuts()).toBe(1);
    expect(await inbox.write([delivery('a'), delivery('b')])).toEqual(['repeat', 'repeat']);
  });

  it('keeps texts that Postgres has no room for by the policy of the copied tables', async () => {
    const inbox = await openedFor(await POSTGRES.address());
    await inbox.write([delivery('a')]);
    await inbox.settle([settlement(1, 'dead', { reason: 'nul \0 and half \ud83d', record_id: 'x\0' })]);
    expect(await inbox.get(1)).toMatchObject({ reason: 'nul ␀ and half \ufffd', record_id: 'x␀' });
  });
});

describe.skipIf(POSTGRES.missing !== null)('work that is asked for with a delivery', () => {
  it('is asked for once in each transaction that leaves some, and in no other', async () => {
    const { inbox, asked } = await asking();
    await inbox.write(['a', 'b', 'c'].map((id) => delivery(id)));
    expect(await asked()).toBe(1);
    expect(await inbox.write([delivery('a')])).toEqual(['repeat']);
    await inbox.settle([settlement(1, 'dead'), settlement(2, 'done')]);
    expect(await asked()).toBe(1);
    expect(await inbox.write([delivery('a')])).toEqual(['again']);
    expect(await asked()).toBe(2);
    expect(await inbox.replay([2])).toBe(1);
    expect(await asked()).toBe(3);
    expect(await inbox.replay([99])).toBe(0);
  });

  it('is asked for if and only if the delivery is stored', async () => {
    const { inbox, asked, fail } = await asking();
    fail(new Error('no queue'));
    await expect(inbox.write([delivery('a')])).rejects.toThrow('no queue');
    expect([await inbox.get('a'), await asked()]).toEqual([null, 0]);
    fail(null);
    await inbox.write([delivery('a')]);
    expect(await asked()).toBe(1);
  });
});
