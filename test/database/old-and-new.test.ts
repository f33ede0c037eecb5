import { DatabaseSync } from 'node:sqlite';
import type { Kysely } from 'kysely';
import { describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { WAREHOUSE_MIGRATIONS } from '../../src/database/migrate.ts';
import { openWarehouse, openWarehouseToRead } from '../../src/database/databases.ts';
import { readAddress } from '../../src/config/warehouse-address.ts';
import { openDatabase } from '../../src/database/postgres/connection/open-database.ts';
import { openFile } from '../../src/database/sqlite/connection/open-file.ts';
import { asOtherClient, DATABASES, POSTGRES, SQLITE, warehouseOn, type OpenWarehouse } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';

/** A step that this version knows nothing of: the old one's rows would break what it promises. */
const NEWER = {
  ...WAREHOUSE_MIGRATIONS,
  '900-newer': {
    up: (db: Kysely<unknown>) => db.schema.alterTable('_sync_checkpoints').addColumn('newer', 'text').execute(),
  },
};

/** Does to a warehouse what the first start of a newer version does. */
async function openByNewer(address: string): Promise<void> {
  const place = readAddress(address);
  if (place === null) throw new Error(`${address} is no address`);
  if (place.kind === 'sqlite') {
    const { own } = await openFile(place.file, systemClock, { migrations: NEWER, configure: () => undefined });
    return own.destroy();
  }
  await (await openDatabase(place, systemClock, { migrations: NEWER, table: '_sync_migrations' })).close();
}

const STATE = 'SELECT (SELECT count(*) FROM content) AS rows, (SELECT max(expires_at) FROM _sync_leases) AS lease';

describe.for(DATABASES)('an old and a new version on one warehouse, on $name', (database) => {
  it('the old one stops writing at the migration, and says why', async () => {
    const { warehouse, address, rows } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    await load(['{"id":"1"}']);
    await openByNewer(address);
    const before = await rows(STATE);
    const refusal = { name: 'ConfigError', code: 'warehouse_newer', message: expect.stringContaining('900-newer') };
    await expect(load(['{"id":"2"}'])).rejects.toMatchObject(refusal);
    await expect(load(['{"id":"3","added":true}'])).rejects.toMatchObject(refusal);
    expect(await rows(STATE)).toEqual(before);
    await expect(openWarehouse(address, systemClock)).rejects.toMatchObject({ code: 'warehouse_newer' });
  });
});

it('a command that reads says so with its hint even if it cannot close the file', async () => {
  const { address } = await warehouseOn(SQLITE);
  await openByNewer(address);
  using close = vi.spyOn(DatabaseSync.prototype, 'close').mockImplementation(() => {
    throw new Error('the disk is gone');
  });
  const refusal = { name: 'ConfigError', code: 'warehouse_newer', hint: expect.any(String) };
  await expect(openWarehouseToRead(address, systemClock)).rejects.toMatchObject(refusal);
  expect(close).toHaveBeenCalled();
});

describe.skipIf(POSTGRES.missing !== null)('a page that the old version has in hand', () => {
  it('is committed before the tables are migrated', async () => {
    const { warehouse, address }: OpenWarehouse = await warehouseOn(POSTGRES);
    await (await loading(warehouse)).load(['{"id":"1"}']);
    await asOtherClient(address, async (page) => {
      await page.query('BEGIN; UPDATE _sync_leases SET expires_at = expires_at');
      const opening = openByNewer(address);
      await asOtherClient(address, (client) =>
        vi.waitUntil(
          async () => {
            const waiting = `SELECT 1 FROM pg_locks JOIN pg_database d ON d.oid = database
              WHERE NOT granted AND relation = '_sync_leases'::regclass AND datname = current_database()`;
            return (await client.query(waiting)).rowCount === 1;
          },
          { timeout: 30_000 },
        ),
      );
      const { rows } = await page.query("SELECT 1 FROM _sync_migrations WHERE name = '900-newer'");
      expect(rows).toEqual([]);
      await page.query('COMMIT');
      await opening;
    });
  });
});
