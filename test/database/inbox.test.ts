import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { Inbox } from '../../src/database/inbox.ts';
import { inboxAddress, openInbox } from '../../src/database/databases.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { delivery, moment as T, settlement } from './deliveries.ts';

async function openedFor(address: string): Promise<Inbox> {
  const inbox = await openInbox(address, systemClock);
  onTestFinished(() => inbox.close());
  return inbox;
}

async function tempInbox(database: TestDatabase): Promise<{ inbox: Inbox; address: string }> {
  const address = inboxAddress(await database.address());
  return { inbox: await openedFor(address), address };
}

describe.for(DATABASES)('an inbox on $name', (database) => {
  it('keeps a delivery as it came, bytes that are no text included', async () => {
    const { inbox } = await tempInbox(database);
    const body = Buffer.from([0xff, 0x00, 0xfe, 0x7b]);
    expect(await inbox.write([delivery('a', { body, headers: '{"x-kind":"k"}' })])).toEqual(['new']);
    const row = await inbox.get('a');
    expect(row).toMatchObject({ seq: 1, delivery_id: 'a', headers: '{"x-kind":"k"}', state: 'waiting', attempts: 0 });
    expect(row?.body).toEqual(body);
    expect(await inbox.get(1)).toEqual(row);
    expect(await inbox.get('b')).toBeNull();
  });

  it('hands out what waits and is due, in the order in which it came', async () => {
    const { inbox } = await tempInbox(database);
    await inbox.write(['a', 'b', 'c', 'd'].map((id) => delivery(id)));
    await inbox.settle([settlement(1, 'done'), settlement(3, 'waiting', { due_at: T(20) })]);
    const ids = async (after: number, now: string, limit = 9): Promise<string[]> =>
      (await inbox.waiting(after, now, limit)).map((row) => row.delivery_id);
    expect(await ids(0, T(19))).toEqual(['b', 'd']);
    expect(await ids(0, T(20))).toEqual(['b', 'c', 'd']);
    expect(await ids(2, T(20))).toEqual(['c', 'd']);
    expect(await ids(0, T(20), 1)).toEqual(['b']);
  });

  it('lets a person make deliveries wait again, by number or all that are dead', async () => {
    const { inbox } = await tempInbox(database);
    await inbox.write(['a', 'b', 'c'].map((id) => delivery(id)));
    await inbox.settle([settlement(1, 'done'), settlement(2, 'dead'), settlement(3, 'dead')]);
    expect(await inbox.replay([1, 99])).toBe(1);
    expect(await inbox.replay('dead')).toBe(2);
    expect(await inbox.replay('dead')).toBe(0);
    const again = { state: 'waiting', attempts: 0, finished_at: null, reason: null };
    expect(await inbox.waiting(0, T(0), 9)).toEqual([1, 2, 3].map((seq) => expect.objectContaining({ seq, ...again })));
  });

  it('lets go what was finished long ago, in bounded steps; never what waits', async () => {
    const { inbox } = await tempInbox(database);
    await inbox.write(['a', 'b', 'c', 'd', 'e'].map((id) => delivery(id)));
    await inbox.settle([
      settlement(1, 'done', { finished_at: T(10) }),
      settlement(2, 'ignored', { finished_at: T(10) }),
      settlement(3, 'dead', { finished_at: T(10) }),
      settlement(4, 'done', { finished_at: T(11) }),
    ]);
    const before = { finished: T(11), dead: T(10) };
    expect(await inbox.purge(before, 1)).toBe(2);
    expect(await inbox.purge(before, 1)).toBe(0);
    expect((await inbox.list({ limit: 9 })).map((row) => row.seq)).toEqual([5, 4, 3]);
    expect(await inbox.purge({ finished: T(59), dead: T(59) }, 9)).toBe(2);
    // The number of a delivery that is gone is not given again.
    expect((await inbox.list({ limit: 9 })).map((row) => row.seq)).toEqual([5]);
    await inbox.settle([settlement(5, 'done')]);
    await inbox.purge({ finished: T(59), dead: T(59) }, 9);
    await inbox.write([delivery('f')]);
    expect((await inbox.list({ limit: 9 })).map((row) => row.seq)).toEqual([6]);
  });

  it('writes all entries of a transaction or none', async () => {
    const { inbox } = await tempInbox(database);
    const unbound = delivery('b');
    Reflect.set(unbound, 'delivery_id', null);
    await expect(inbox.write([delivery('a'), unbound])).rejects.toThrow(
      /NOT NULL constraint failed|null value in column/,
    );
    expect(await inbox.list({ limit: 9 })).toEqual([]);
  });

  it('refuses one that a newer version has written', async () => {
    const { address } = await tempInbox(database);
    const migrations = database.name === 'sqlite' ? '_sync_migrations' : '_sync_inbox_migrations';
    await database.write(address, `INSERT INTO ${migrations} VALUES ('900-from-the-future', '2030-01-01')`);
    await expect(openInbox(address, systemClock)).rejects.toMatchObject({ code: 'warehouse_newer' });
  });
});

describe.for(DATABASES)('a delivery that comes again on $name', (database) => {
  it('F172 is one row, and counted', async () => {
    const { inbox } = await tempInbox(database);
    await inbox.write([delivery('a'), delivery('a'), delivery('b')]);
    expect(await inbox.write([delivery('a', { received_at: T(9) })])).toEqual(['repeat']);
    expect(await inbox.get('a')).toMatchObject({ seq: 1, repeats: 2, received_at: T(0) });
    await inbox.settle([settlement(1, 'done')]);
    expect(await inbox.write([delivery('a')])).toEqual(['repeat']);
    expect(await inbox.get('a')).toMatchObject({ state: 'done', repeats: 3 });
  });

  it('waits again from the start where the earlier one is dead', async () => {
    const { inbox } = await tempInbox(database);
    await inbox.write([delivery('a')]);
    await inbox.settle([settlement(1, 'dead', { attempts: 8 })]);
    expect(await inbox.write([delivery('a', { received_at: T(40) })])).toEqual(['again']);
    const again = { state: 'waiting', attempts: 0, due_at: null, finished_at: null, received_at: T(40), repeats: 1 };
    expect(await inbox.get('a')).toMatchObject(again);
  });

  it('is not settled unread: the same body may be a second event', async () => {
    const { inbox } = await tempInbox(database);
    const hashed = delivery('sha256:1', { is_id_sent: false });
    await inbox.write([hashed]);
    const [first] = await inbox.waiting(0, T(0), 9);
    // It comes while the record is read for the first one, and is handed out again before that is settled.
    expect(await inbox.write([hashed])).toEqual(['repeat']);
    const [second] = await inbox.waiting(0, T(0), 9);
    await inbox.settle([settlement(1, 'done', { readEvents: first?.events ?? null })]);
    expect(await inbox.waiting(0, T(0), 9)).toEqual([expect.objectContaining({ state: 'waiting', attempts: 0 })]);
    await inbox.settle([settlement(1, 'done', { readEvents: second?.events ?? null })]);
    expect(await inbox.get(1)).toMatchObject({ state: 'done', repeats: 1 });
    expect(await inbox.write([hashed])).toEqual(['again']);
  });
});

const FIRST = Buffer.from('{"n":1}');
const OTHER = Buffer.from('{"n":2}');
const THIRD = Buffer.from('{"n":3}');

/** SHA-256 of the other body begins with this. */
const APART = /^a#[0-9a-f]{16}$/;

describe.for(DATABASES)('a body under the id of another one on $name', (database) => {
  it('stands beside the first one, which stays as it is, and is worked on', async () => {
    const { inbox } = await tempInbox(database);
    await inbox.write([delivery('a', { body: FIRST })]);
    await inbox.settle([settlement(1, 'done')]);
    const first = await inbox.get('a');
    expect(await inbox.write([delivery('a', { body: OTHER, received_at: T(9) })])).toEqual(['different']);
    expect(await inbox.get('a')).toEqual(first);
    const [waiting, ...none] = await inbox.waiting(0, T(10), 9);
    expect(none).toEqual([]);
    expect(waiting).toMatchObject({ differs_from: 'a', received_at: T(9), repeats: 0 });
    expect(waiting?.delivery_id).toMatch(APART);
    expect(waiting?.body).toEqual(OTHER);
    expect(await inbox.figures()).toMatchObject({ waiting: 1, different: 1 });
  });

  it('is told from it also where both come in one moment, however many bodies there are', async () => {
    const { inbox } = await tempInbox(database);
    const bodies = [FIRST, OTHER, FIRST, THIRD, OTHER];
    const effects = await inbox.write([...bodies.map((body) => delivery('a', { body })), delivery('b')]);
    expect(effects).toEqual(['new', 'different', 'repeat', 'different', 'repeat', 'new']);
    const rows = (await inbox.list({ limit: 9 })).map(({ body, differs_from }) => [String(body), differs_from]);
    expect(new Set(rows)).toEqual(
      new Set([
        ['{"id":"b"}', null],
        [String(FIRST), null],
        [String(OTHER), 'a'],
        [String(THIRD), 'a'],
      ]),
    );
  });
});

describe.for(DATABASES)('what waits in an inbox on $name', (database) => {
  it('is counted in bytes as well, those that wait again included', async () => {
    const { inbox } = await tempInbox(database);
    const body = Buffer.alloc(1_000);
    await inbox.write([delivery('a', { body }), delivery('b', { body, headers: '{"é":1}' }), delivery('c', { body })]);
    expect(await inbox.figures()).toMatchObject({ waiting: 3, waitingBytes: 3_011 });
    await inbox.settle([settlement(1, 'dead'), settlement(2, 'done')]);
    expect(await inbox.figures()).toMatchObject({ waiting: 1, waitingBytes: 1_002 });
    await inbox.write([delivery('a', { body, headers: '{"more":true}' })]);
    expect(await inbox.figures()).toMatchObject({ waiting: 2, waitingBytes: 2_015 });
    await inbox.replay([2]);
    expect(await inbox.figures()).toMatchObject({ waiting: 3, waitingBytes: 3_022 });
  });
});

describe.for(DATABASES)('an inbox of the version before on $name', (database) => {
  it('is told the sizes of what waits', async () => {
    const address = inboxAddress(await database.address());
    const before = await openInbox(address, systemClock);
    await before.write([delivery('a', { body: Buffer.alloc(500) }), delivery('b')]);
    await before.settle([settlement(2, 'done')]);
    await before.close();
    const migrations = database.name === 'sqlite' ? '_sync_migrations' : '_sync_inbox_migrations';
    for (const statement of [
      'DROP INDEX _sync_deliveries_waiting',
      'DROP INDEX _sync_deliveries_different',
      'ALTER TABLE _sync_deliveries DROP COLUMN size',
      'ALTER TABLE _sync_deliveries DROP COLUMN differs_from',
      `CREATE INDEX _sync_deliveries_waiting ON _sync_deliveries (seq) WHERE state = 'waiting'`,
      `DELETE FROM ${migrations} WHERE name LIKE '002%' OR name LIKE '003%'`,
    ]) {
      await database.write(address, statement);
    }
    const after = await openInbox(address, systemClock);
    onTestFinished(() => after.close());
    expect(await after.figures()).toMatchObject({ waiting: 1, waitingBytes: 502, different: 0 });
  });
});
