import { describe, expect, it, onTestFinished } from 'vitest';
import { readAddress } from '../../../../src/config/warehouse-address.ts';
import { WAREHOUSE_MIGRATIONS } from '../../../../src/database/migrate.ts';
import type { OwnTables } from '../../../../src/database/own-tables.ts';
import { openDatabase } from '../../../../src/database/postgres/connection/open-database.ts';
import { transact } from '../../../../src/database/postgres/connection/transact.ts';
import type { Clock } from '../../../../src/model/clock.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { startPostgres } from '../../../support/postgres-server.ts';

const WAREHOUSE = { migrations: WAREHOUSE_MIGRATIONS, table: '_sync_migrations' };

const STATUS = 'SELECT pg_xact_status($1::xid8) AS status';

/** Commits transactions until one has had this number. */
function commitUpTo(xid: string): string {
  return `DO $$ BEGIN WHILE pg_current_xact_id() < '${xid}'::xid8 LOOP COMMIT; END LOOP; COMMIT; END $$`;
}

async function openFor(address: string, tables = WAREHOUSE, clock: Clock = systemClock) {
  const place = readAddress(address);
  if (place?.kind !== 'postgres') throw new Error(`${address} is no address of Postgres`);
  const opened = await openDatabase<OwnTables>(place, clock, tables);
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

  it('F138 F136 is not misled by a number that a crashed server gives anew', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    const address = `${server.url()}?schema=blog`;
    const { database, own } = await openFor(address);
    const numbers: string[] = [];
    await transact(database, async ({ execute }) => {
      const { rows } = await execute<{ xid: string }>('SELECT pg_current_xact_id()::text AS xid');
      const [xid = ''] = rows.map((row) => row.xid);
      numbers.push(xid);
      await execute(`INSERT INTO _sync_limits VALUES ('a', '{}', '2026-11-21 10:00:00')`);
      if (numbers.length > 1) return;
      await server.crash();
      await server.start();
      await asOtherClient(address, (client) => client.query(commitUpTo(xid)));
      expect(
        await asOtherClient(address, (client) => client.query(STATUS, [xid]).then(({ rows: [row] }) => row)),
      ).toEqual({
        status: 'committed',
      });
    });
    expect(numbers).toHaveLength(2);
    expect(await own.selectFrom('_sync_limits').select('name').execute()).toEqual([{ name: 'a' }]);
  });
});
