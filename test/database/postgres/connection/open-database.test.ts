import { describe, expect, it, onTestFinished } from 'vitest';
import { readAddress } from '../../../../src/config/warehouse-address.ts';
import { WAREHOUSE_MIGRATIONS } from '../../../../src/database/migrate.ts';
import type { OwnTables } from '../../../../src/database/own-tables.ts';
import { openDatabase } from '../../../../src/database/postgres/connection/open-database.ts';
import { transact } from '../../../../src/database/postgres/connection/transact.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';

const WAREHOUSE = { migrations: WAREHOUSE_MIGRATIONS, table: '_sync_migrations' };

async function openFor(address: string) {
  const place = readAddress(address);
  if (place?.kind !== 'postgres') throw new Error(`${address} is no address of Postgres`);
  const opened = await openDatabase<OwnTables>(place, systemClock, WAREHOUSE);
  onTestFinished(() => opened.close());
  return opened;
}

describe.skipIf(POSTGRES.missing !== null)('a Postgres database of ours', () => {
  it('gives back times as our own text, and counts as numbers', async () => {
    const { own } = await openFor(await POSTGRES.address());
    const row = { name: 'a', state: '{}', updated_at: '2026-11-21 10:00:00.120' };
    await own.insertInto('_sync_limits').values(row).execute();
    expect(await own.selectFrom('_sync_limits').selectAll().execute()).toEqual([row]);
    const count = own.selectFrom('_sync_limits').select((select) => select.fn.countAll<number>().as('n'));
    expect(await count.executeTakeFirstOrThrow()).toEqual({ n: 1 });
  });

  it.each([
    ['off', 'on'],
    ['local', 'on'],
    ['on', 'on'],
    ['remote_apply', 'remote_apply'],
  ])('waits for its commits as long as is asked for, and for the disk at least: %s', async (asked, expected) => {
    const address = await POSTGRES.address();
    await asOtherClient(address, (client) =>
      client.query(`ALTER DATABASE "${new URL(address).pathname.slice(1)}" SET synchronous_commit TO '${asked}'`),
    );
    const { database } = await openFor(address);
    const set = await transact(database, ({ execute }) => execute('SHOW synchronous_commit'));
    expect(set.rows).toEqual([{ synchronous_commit: expected }]);
  });
});
