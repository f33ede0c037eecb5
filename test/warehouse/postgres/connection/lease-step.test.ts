import { describe, expect, it } from 'vitest';
import { timestampMs, timestampText } from '../../../../src/model/timestamp-text.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { acquireLease } from '../../../../src/state/leases.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';

const HOUR = 3_600_000;

/** A warehouse, a lease on a resource, and something to write under it. */
async function staged() {
  const stage = await warehouseOn(POSTGRES);
  const { warehouse, rows, write, address } = stage;
  const lease = await acquireLease(warehouse, 'content', systemClock);
  const { own } = warehouse;
  const noted = own.insertInto('_sync_limits').values({ name: 'noted', state: '{}', updated_at: timestampText(0) });
  return {
    warehouse,
    address,
    write,
    lease,
    apply: () => warehouse.apply([noted.compile()], lease.proof()),
    noted: async () => (await rows("SELECT count(*) AS n FROM _sync_limits WHERE name = 'noted'"))[0]?.['n'],
    stored: async () => (await rows('SELECT expires_at, commits FROM _sync_leases'))[0] ?? {},
  };
}

describe.skipIf(POSTGRES.missing !== null)('a transaction under a lease on Postgres', () => {
  it('renews the lease and counts itself, and never shortens it', async () => {
    const { warehouse, lease, apply, noted, stored } = await staged();
    await apply();
    expect([await noted(), (await stored())['commits']]).toEqual([1n, 1n]);
    const longer = { ...lease.proof(), expiresAt: timestampText(Date.now() + HOUR) };
    await warehouse.apply([], longer);
    await warehouse.apply([], lease.proof());
    const { expires_at, commits } = await stored();
    expect(commits).toBe(3n);
    expect(timestampMs(String(expires_at))).toBeGreaterThan(Date.now() + HOUR / 2);
  });

  it('is refused where a newer version has migrated the tables meanwhile, and names its step', async () => {
    const { write, apply, noted } = await staged();
    await write("INSERT INTO _sync_migrations VALUES ('900-from-the-future', '2030-01-01')");
    await expect(apply()).rejects.toMatchObject({
      code: 'warehouse_newer',
      message: expect.stringContaining('900-from-the-future'),
    });
    expect(await noted()).toBe(0n);
  });

  it('holds the lease: who takes it over waits until it is committed', async () => {
    const { address, apply, noted } = await staged();
    await asOtherClient(address, async (client) => {
      await client.query('BEGIN');
      await client.query("UPDATE _sync_leases SET fence = 'other', token = token + 1");
      const applied = apply().then(
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
    expect(await noted()).toBe(0n);
  });
});
