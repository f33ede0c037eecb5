import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { acquireLease, processNamespace } from '../../../src/database/state/leases.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { asOther, openFor, rowsIn, tempWarehouse } from '../../support/temp-warehouse.ts';

const HELD = { name: 'SyncError', code: 'lease_held', hint: expect.stringContaining('wait until it is done') };

/** A lease on `content` as another process would have left it. */
function leaveLease(file: string, owner: { host?: string; pid?: number; expires?: string }): void {
  const { host = processNamespace(false), pid = 1, expires = '2026-11-20 08:01:00.000' } = owner;
  asOther(file, (db) =>
    db
      .prepare(
        `INSERT OR REPLACE INTO _sync_leases (name, token, owner, host, pid, acquired_at, expires_at)
          VALUES ('content', 7, 'someone', ?, ?, '2026-11-20 08:00:00.000', ?)`,
      )
      .run(host, pid, expires),
  );
}

/** The id of a process that has just ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  return child.pid ?? 0;
}

function tokens(file: string): unknown[] {
  return rowsIn(file, 'SELECT token FROM _sync_leases').map(({ token }) => token);
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a lease', () => {
  it('F133 is refused while a living process of this host has it, and names who', async () => {
    const { warehouse, file } = await tempWarehouse(new HandClock());
    leaveLease(file, { pid: process.ppid });
    await expect(acquireLease(warehouse, 'content', new HandClock())).rejects.toMatchObject({
      ...HELD,
      message: expect.stringContaining('content is being synced by someone'),
    });
    expect(tokens(file)).toEqual([7n]);
  });

  it.each([
    ['its process is dead', async () => ({ pid: await deadPid() })],
    ['it has our own pid, as pid 1 of a restarted container has', async () => ({ pid: process.pid })],
    ['it has run out, here', async () => ({ pid: process.ppid, expires: '2026-11-20 08:00:00.000' })],
    ['it has run out, on another host', async () => ({ host: 'elsewhere', expires: '2026-11-20 07:59:59.999' })],
  ])('is taken over where %s, under a higher token', async (_, owner) => {
    const { warehouse, file } = await tempWarehouse(new HandClock());
    leaveLease(file, await owner());
    const lease = await acquireLease(warehouse, 'content', new HandClock());
    expect(lease.proof()).toMatchObject({ name: 'content', token: 8, expiresAt: '2026-11-20 08:00:40.000' });
    expect(rowsIn(file, 'SELECT token, host, pid, acquired_at FROM _sync_leases')).toEqual([
      { token: 8n, host: processNamespace(false), pid: BigInt(process.pid), acquired_at: '2026-11-20 08:00:00.000' },
    ]);
    await lease.release();
  });

  it('that a clock far ahead has left is waited for no longer than any other', async () => {
    const clock = new HandClock();
    const { warehouse, file } = await tempWarehouse(clock);
    leaveLease(file, { host: 'elsewhere', expires: '2026-12-20 08:00:40.000' });
    await expect(acquireLease(warehouse, 'content', clock)).rejects.toMatchObject(HELD);
    clock.step(60_000);
    await (await acquireLease(warehouse, 'content', clock)).release();
  });

  it('lets nobody commit who was overtaken, and costs the others nothing', async () => {
    const { warehouse, file } = await tempWarehouse();
    const clock = new HandClock();
    const frozen = await acquireLease(warehouse, 'content', clock);
    const other = await acquireLease(await openFor(file), 'content', clock);
    await expect(warehouse.apply([], frozen.proof())).rejects.toMatchObject({ code: 'lease_lost', recovery: 'stop' });
    await warehouse.apply([], other.proof());
    // Who lost it gives nothing back that is not its own.
    await frozen.release();
    expect(rowsIn(file, "SELECT expires_at > '2000' AS alive FROM _sync_leases")).toEqual([{ alive: 1n }]);
    await other.release();
  });

  it('lives on while nothing is committed, and is free at once when it is given back', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const clock = new HandClock();
    const { warehouse, file } = await tempWarehouse(clock);
    const lease = await acquireLease(warehouse, 'content', clock);
    const expiry = 'SELECT expires_at FROM _sync_leases';
    expect(rowsIn(file, expiry)).toEqual([{ expires_at: '2026-11-20 08:00:40.000' }]);
    clock.step(15_000);
    vi.advanceTimersByTime(10_000);
    await vi.waitFor(() => expect(rowsIn(file, expiry)).toEqual([{ expires_at: '2026-11-20 08:00:55.000' }]));
    await lease.release();
    expect(rowsIn(file, expiry)).toEqual([{ expires_at: '1970-01-01 00:00:00.000' }]);
    clock.step(15_000);
    vi.advanceTimersByTime(60_000);
    expect(rowsIn(file, expiry)).toEqual([{ expires_at: '1970-01-01 00:00:00.000' }]);
  });
});
