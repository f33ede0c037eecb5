// Leases: at most one process writes a resource. Example: cron starts a second `sync` while the first one runs: it fails with
// `lease_held`. A lease expires unless it is renewed, because a killed process cannot release its own. Every transaction
// verifies the lease (`LeaseProof`), so that a process that was frozen meanwhile writes nothing.
import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { errorCode, SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { LeaseRow } from '../own-tables.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';

/** A lease that is not renewed for this long has expired. */
const LEASE_TTL_MS = 40_000;
const RENEW_INTERVAL_MS = 10_000;

/** Exclusive ownership of a resource. */
export interface Lease {
  /** Returns what the next transaction verifies: the token, which grows with every owner, and this owner's random fence. */
  proof(): LeaseProof;
  /**
   * True if the database has lost commits of this owner (failover to a replica that lagged behind, or a restored backup),
   * and no other process has taken the resource over since.
   */
  isSetBack(): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * Takes the lease of a resource and keeps it alive until it is released. Throws `SyncError('lease_held')` if
 * another process that may still be alive owns it.
 */
export async function acquireLease(warehouse: Warehouse, resource: string, clock: Clock): Promise<Lease> {
  const time = warehouseTime(warehouse, clock);
  await time.read();
  const fence = randomUUID();
  const token = await takeLease(warehouse, resource, fence, time.now());
  let commits = 0;
  const proof = (): LeaseProof => ({
    name: resource,
    token,
    fence,
    expiresAt: timestampText(time.now() + LEASE_TTL_MS),
    commits: () => commits,
    committed: () => {
      commits += 1;
    },
  });
  const renewal = startRenewal(async () => {
    await time.read();
    await warehouse.apply([], proof());
  });
  return {
    proof,
    isSetBack: async () => isEarlierState(await readLease(warehouse, resource), { token, fence, commits }),
    release: async () => {
      await renewal.stop();
      const free = { expires_at: timestampText(0) };
      const released = warehouse.own
        .updateTable('_sync_leases')
        .set(free)
        .where('name', '=', resource)
        .where('fence', '=', fence)
        .execute();
      // A lease that cannot be released (full disk) expires by itself, and must not hide why the run ended.
      await released.catch(() => undefined);
    },
  };
}

/** The clock of the warehouse, which all machines share; between two readings, this machine's clock adds to it. */
function warehouseTime(warehouse: Warehouse, clock: Clock): { read(): Promise<void>; now(): number } {
  /** The last reading of the warehouse's clock, and this machine's clock at that time. */
  let [reading, readAt] = [0, 0];
  return {
    read: async () => {
      const now = await warehouse.now();
      // If the process is frozen between the two readings, its time lags: the lease ends too early, never too late.
      [reading, readAt] = [now, clock.monotonic()];
    },
    now: () => reading + clock.monotonic() - readAt,
  };
}

/** Renews at intervals until it is stopped; renewals do not overlap. */
function startRenewal(renew: () => Promise<void>): { stop(): Promise<void> } {
  let current: Promise<void> | null = null;
  const timer = setInterval(() => {
    // The next commit reports a lost lease, and the next renewal retries a busy database.
    current ??= renew()
      .catch(() => undefined)
      .finally(() => {
        current = null;
      });
  }, RENEW_INTERVAL_MS);
  timer.unref();
  return {
    stop: async () => {
      clearInterval(timer);
      await current;
    },
  };
}

function readLease({ own }: Warehouse, resource: string): Promise<LeaseRow | undefined> {
  return own.selectFrom('_sync_leases').selectAll().where('name', '=', resource).executeTakeFirst();
}

/** True if the stored lease is an earlier state of the owner's; false if a later owner has it. */
function isEarlierState(
  stored: LeaseRow | undefined,
  { token, fence, commits }: { token: number; fence: string; commits: number },
): boolean {
  if (stored === undefined || stored.token < token) return true;
  return stored.token === token && stored.fence === fence && stored.commits < commits;
}

async function takeLease(warehouse: Warehouse, resource: string, fence: string, now: number): Promise<number> {
  const { own } = warehouse;
  const host = processNamespace(warehouse.isOnNetwork);
  const ownership = {
    fence,
    commits: 0,
    owner: `pid ${process.pid} on ${hostname()}`,
    host,
    pid: process.pid,
    acquired_at: timestampText(now),
    expires_at: timestampText(now + LEASE_TTL_MS),
  };
  for (;;) {
    const existing = await readLease(warehouse, resource);
    // This process has it already if the connection was lost before the response.
    if (existing?.fence === fence) return existing.token;
    if (existing !== undefined && mayBeAlive(existing, host, now)) {
      await shortenLease(own, existing, now);
      throw leaseHeld(existing);
    }
    // If another process has taken the lease since the read, the token differs, nothing is written, and the loop repeats.
    const taken = await own
      .insertInto('_sync_leases')
      .values({ name: resource, token: 1, ...ownership })
      .onConflict((conflict) =>
        conflict
          .column('name')
          .doUpdateSet({ ...ownership, token: sql<number>`_sync_leases.token + 1` })
          .where('_sync_leases.token', '=', existing?.token ?? -1)
          .where('_sync_leases.fence', '=', existing?.fence ?? ''),
      )
      .returning('token')
      .executeTakeFirst();
    if (taken !== undefined) return taken.token;
  }
}

/** Shortens a lease that ends too late, because a clock was ahead. An owner that is alive renews it in time. */
async function shortenLease(own: Warehouse['own'], existing: LeaseRow, now: number): Promise<void> {
  if (timestampMs(existing.expires_at) <= now + 2 * LEASE_TTL_MS) return;
  const lease = own.updateTable('_sync_leases').set({ expires_at: timestampText(now + LEASE_TTL_MS) });
  const { name, fence, expires_at } = existing;
  await lease.where('name', '=', name).where('fence', '=', fence).where('expires_at', '=', expires_at).execute();
}

/**
 * Returns false for an expired lease, and for one of a dead process of this machine, so that a restart after a kill need not
 * wait until the lease expires.
 */
function mayBeAlive(lease: LeaseRow, host: string, now: number): boolean {
  if (timestampMs(lease.expires_at) <= now) return false;
  return lease.host !== host || isOtherRunning(lease.pid);
}

/** The error for a resource whose lease another process has. */
function leaseHeld({ name, owner, acquired_at, expires_at }: LeaseRow): SyncError {
  return new SyncError(
    'lease_held',
    `${name} is being synced by ${owner} since ${acquired_at} UTC (its lease runs until ${expires_at} UTC unless renewed)`,
    { recovery: 'stop', hint: 'wait until it is done, or stop that process; then run the same command again' },
  );
}

/**
 * Identifies the namespace of process ids: two processes with the same text can look each other up by pid. A host name
 * does not suffice, because containers may share it and all be pid 1; the boot id and the pid namespace of the kernel do.
 * Outside of Linux these cannot be read: then processes that share a server are not looked up, and leases of dead ones
 * expire, while processes that share a file run on one machine.
 */
export function processNamespace(isOnNetwork: boolean): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${hostname()} ${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return isOnNetwork ? `${hostname()} ${UNKNOWN_NAMESPACE}` : hostname();
  }
}

/** True if a lease belongs to this process. */
export function isThisProcess({ pid, host }: { pid: number; host: string }): boolean {
  return pid === process.pid && (host === processNamespace(true) || host === processNamespace(false));
}

/** Random, so that no two processes look each other up by pid. */
const UNKNOWN_NAMESPACE = randomUUID();

/** True if another process with this pid is running. */
export function isOtherRunning(pid: number): boolean {
  // A lease with the own pid is that of an earlier process, such as pid 1 of a container before it was restarted.
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}
