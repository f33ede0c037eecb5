import { hostname } from 'node:os';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Clock } from '../../../src/model/clock.ts';
import { timestampMs } from '../../../src/model/timestamp-text.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { acquireLease, processNamespace } from '../../../src/database/state/leases.ts';
import { openWarehouse } from '../../../src/database/databases.ts';
import { startScript } from '../../support/child-script.ts';
import { asOtherClient, POSTGRES, preparedAddress } from '../../support/databases.ts';

const HOLDER = new URL('lease-holder.ts', import.meta.url);
const MINUTES = 60_000;

/** The machine's own clock, wrong by so many milliseconds. */
function wrongBy(ms: number): Clock {
  return { ...systemClock, now: () => systemClock.now() + ms };
}

/** As a process on a machine with that clock sees the warehouse. */
async function machine(address: string, clock: Clock) {
  const warehouse = await openWarehouse(address, clock);
  onTestFinished(() => warehouse.close());
  return {
    warehouse,
    acquire: async () => {
      const lease = await acquireLease(warehouse, 'content', clock);
      onTestFinished(() => lease.release());
      return lease;
    },
  };
}

/** What stands in the lease. */
async function leaseAt(address: string): Promise<Record<string, string>> {
  const columns = `owner, host, (expires_at - (now() AT TIME ZONE 'UTC')) > interval '38 seconds' AS "isNew",
    (expires_at - (now() AT TIME ZONE 'UTC')) <= interval '40 seconds' AS "isShort"`;
  return asOtherClient(address, async (client) => (await client.query(`SELECT ${columns} FROM _sync_leases`)).rows[0]);
}

/** Makes the lease that stands there another one. */
async function change(address: string, changes: string): Promise<void> {
  await asOtherClient(address, (client) => client.query(`UPDATE _sync_leases SET ${changes}`));
}

describe.skipIf(POSTGRES.missing !== null)('leases of machines whose clocks differ', () => {
  it.each([-30 * MINUTES, 30 * MINUTES])('go by the clock of the database (%i ms off)', async (off) => {
    const address = await preparedAddress(POSTGRES);
    const { warehouse, acquire } = await machine(address, wrongBy(off));
    const lease = await acquire();
    expect(await leaseAt(address)).toMatchObject({ isNew: true, isShort: true });
    await warehouse.apply([], lease.proof());
    expect(await leaseAt(address)).toMatchObject({ isNew: true, isShort: true });
    const ahead = timestampMs(lease.proof().expiresAt) - (await warehouse.now());
    expect(ahead).toBeGreaterThan(38_000);
    expect(ahead).toBeLessThanOrEqual(40_000);
  });
});

describe.skipIf(POSTGRES.missing !== null)('leases of several processes', () => {
  it('F133 tell the second one who has it and since when; and go over at once when that one was killed', async () => {
    const address = await preparedAddress(POSTGRES);
    const { child, ready, ended } = startScript(HOLDER, [address]);
    await ready;
    const { acquire } = await machine(address, systemClock);
    await expect(acquire()).rejects.toMatchObject({
      code: 'lease_held',
      message: expect.stringMatching(
        new RegExp(`^content is being synced by pid ${child.pid} on ${hostname()} since \\d{4}-\\d\\d-\\d\\d .* UTC`),
      ),
    });
    child.kill('SIGKILL');
    await ended;
    expect((await acquire()).proof().token).toBe(2);
  });

  const isLinux = process.platform === 'linux';
  it.runIf(isLinux)('of another container of our name are waited for: its pid means nothing here', async () => {
    const address = await preparedAddress(POSTGRES);
    await (await machine(address, systemClock)).acquire();
    const { host } = await leaseAt(address);
    expect(host).toBe(processNamespace(true));
    // Our own pid in our own place is an earlier process; the same of another table of pids may be alive.
    await change(address, `host = replace(host, 'pid:[', 'pid:[9')`);
    const { acquire } = await machine(address, systemClock);
    await expect(acquire()).rejects.toMatchObject({ code: 'lease_held' });
    await change(address, `host = replace(host, 'pid:[9', 'pid:[')`);
    expect((await acquire()).proof().token).toBe(2);
  });
});
