import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { Inbox } from '../../src/database/inbox.ts';
import { inboxAddress, openInbox } from '../../src/database/databases.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { delivery, moment as T, settlement } from './deliveries.ts';

async function tempInbox(database: TestDatabase): Promise<Inbox> {
  const inbox = await openInbox(inboxAddress(await database.address()), systemClock);
  onTestFinished(() => inbox.close());
  return inbox;
}

const FIRST = Buffer.from('{"n":1}');
const OTHER = Buffer.from('{"n":2}');
const THIRD = Buffer.from('{"n":3}');

/** SHA-256 of the other body begins with this. */
const APART = /^a#[0-9a-f]{16}$/;

describe.for(DATABASES)('a body under the id of another one on $name', (database) => {
  it('stands beside the first one, which stays as it is, and is worked on', async () => {
    const inbox = await tempInbox(database);
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
    const inbox = await tempInbox(database);
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

  it('is none where only the headers are others', async () => {
    const inbox = await tempInbox(database);
    const effects = await inbox.write([delivery('a'), delivery('a', { headers: '{"x-kind":"content.deleted"}' })]);
    expect(effects).toEqual(['new', 'repeat']);
  });
});

describe.for(DATABASES)('what waits in an inbox on $name', (database) => {
  it('is counted in bytes as well, those that wait again included', async () => {
    const inbox = await tempInbox(database);
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
