import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { sql } from 'kysely';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import type { LeaseRow } from '../warehouse/own-tables.ts';
import type { LeaseProof, Warehouse } from '../warehouse/warehouse.ts';

/** A lease that is not renewed for this long is free again. */
const LEASE_MS = 60_000;
const RENEW_MS = 15_000;

/** One owner per resource. The token grows with every owner, so that one who was frozen can no longer commit. */
export interface Lease {
  proof(): LeaseProof;
  release(): Promise<void>;
}

/**
 * Takes the lease of a resource and keeps it alive until it is released. Throws `SyncError('lease_held')` where
 * another process that may still be alive owns it.
 */
export async function acquireLease(warehouse: Warehouse, resource: string, clock: Clock): Promise<Lease> {
  const token = await takeOver(warehouse, resource, clock);
  const proof = (): LeaseProof => ({ name: resource, token, expiresAt: timestampText(clock.now() + LEASE_MS) });
  const renewal = setInterval(() => {
    // A lost lease shows at the next commit, and a busy database is tried again: nothing to do about it here.
    warehouse.apply([], proof()).catch(() => undefined);
  }, RENEW_MS);
  renewal.unref();
  return {
    proof,
    release: async () => {
      clearInterval(renewal);
      const free = { expires_at: timestampText(0) };
      const released = warehouse.own
        .updateTable('_sync_leases')
        .set(free)
        .where('name', '=', resource)
        .where('token', '=', token)
        .execute();
      // One that cannot be given back (the disk is full) runs out by itself, and must not hide why the run ended.
      await released.catch(() => undefined);
    },
  };
}

async function takeOver(warehouse: Warehouse, resource: string, clock: Clock): Promise<number> {
  const { own } = warehouse;
  const now = clock.now();
  const held = await own.selectFrom('_sync_leases').selectAll().where('name', '=', resource).executeTakeFirst();
  if (held !== undefined && mayBeAlive(held, now)) throw leaseHeld(held);
  const claim = {
    owner: `pid ${process.pid} on ${hostname()}`,
    host: hostname(),
    pid: process.pid,
    acquired_at: timestampText(now),
    expires_at: timestampText(now + LEASE_MS),
  };
  // One statement decides: whoever came between the look and this one has raised the token.
  const taken = await own
    .insertInto('_sync_leases')
    .values({ name: resource, token: 1, ...claim })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ ...claim, token: sql<number>`_sync_leases.token + 1` })
        .where('_sync_leases.token', '=', held?.token ?? -1),
    )
    .returning('token')
    .executeTakeFirst();
  if (taken !== undefined) return taken.token;
  const winner = await own
    .selectFrom('_sync_leases')
    .selectAll()
    .where('name', '=', resource)
    .executeTakeFirstOrThrow();
  throw leaseHeld(winner);
}

/** A process on this host can be looked up, so that a restart after a kill need not wait for the lease to run out. */
function mayBeAlive(held: LeaseRow, now: number): boolean {
  if (timestampMs(held.expires_at) <= now) return false;
  if (held.host !== hostname()) return true;
  // Our own pid in a lease that we do not hold: an earlier process had it, such as pid 1 of a restarted container.
  return held.pid !== process.pid && isRunning(held.pid);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !isZombie(pid);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/**
 * True for a process that is dead but that its parent has not taken note of yet: it still takes signals. In containers
 * that may last. Known on Linux only; elsewhere the lease runs out.
 */
function isZombie(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The state follows the command's name, which stands in brackets and may itself hold some.
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z');
  } catch {
    return false;
  }
}

function leaseHeld(held: LeaseRow): SyncError {
  return new SyncError(
    'lease_held',
    `${held.name} is being synced by ${held.owner} since ${held.acquired_at} UTC (its lease runs until ${held.expires_at} UTC unless renewed)`,
    { recovery: 'stop', hint: 'wait until it is done, or stop that process; then run the same command again' },
  );
}
