import { describe, expect, it } from 'vitest';
import { timestampText } from '../../../../src/model/timestamp-text.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { acquireLease } from '../../../../src/database/state/leases.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';

describe.skipIf(POSTGRES.missing !== null)('a transaction under a lease on Postgres', () => {
  it('holds the lease: who takes it over waits until it is committed', async () => {
    const { warehouse, rows, address } = await warehouseOn(POSTGRES);
    const lease = await acquireLease(warehouse, 'content', systemClock);
    const values = { name: 'noted', state: '{}', updated_at: timestampText(0) };
    const noted = warehouse.own.insertInto('_sync_limits').values(values).compile();
    await asOtherClient(address, async (client) => {
      await client.query('BEGIN');
      await client.query("UPDATE _sync_leases SET fence = 'other', token = token + 1");
      const applied = warehouse.apply([noted], lease.proof()).then(
        () => 'committed',
        (error: unknown) => error,
      );
      // It waits for the one who is at it, and sees what that one has made of it.
      const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%_sync_leases%'";
      const seen = async (): Promise<number | null> => {
        // Within a transaction, Postgres shows who does what as it was when it was first asked.
        await client.query('SELECT pg_stat_clear_snapshot()');
        return (await client.query(waiting)).rowCount;
      };
      await expect.poll(seen, { timeout: 10_000 }).toBe(1);
      await client.query('COMMIT');
      expect(await applied).toMatchObject({ code: 'lease_lost' });
    });
    expect(await rows("SELECT name FROM _sync_limits WHERE name = 'noted'")).toEqual([]);
  });
});
