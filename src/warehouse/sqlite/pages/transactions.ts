import type { Database } from 'better-sqlite3';
import type { CompiledQuery } from 'kysely';
import { LAST_DONE, migratedMeanwhile } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import type { RetryWhileLocked } from '../connection/wait-for-lock.ts';

/** Runs work in one transaction, under the lease if one is given. */
export type Transact = <T>(lease: LeaseProof | undefined, work: () => T) => Promise<T>;

export function transactions(db: Database, retryWhileLocked: RetryWhileLocked): Transact {
  const check = leaseCheck(db);
  return (lease, work) => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) check(lease);
      return work();
    });
    return retryWhileLocked(() => {
      // IMMEDIATE, because a read that turns into a write fails at once when another process has written in between.
      const result = transaction.immediate();
      lease?.committed();
      return result;
    });
  };
}

const RENEW = `UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
  WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`;

/**
 * Returns what verifies and renews a lease inside the caller's transaction. That throws `lease_lost`, or
 * `warehouse_newer` if a newer version has migrated the tables.
 */
function leaseCheck(db: Database): (lease: LeaseProof) => void {
  const lastDone = db.prepare(`SELECT ${LAST_DONE}`).pluck();
  const renew = db.prepare(RENEW);
  return ({ name, token, fence, expiresAt, commits }) => {
    const newer = migratedMeanwhile(lastDone.get());
    if (newer !== null) throw newer;
    if (renew.run(expiresAt, name, token, fence, commits()).changes === 0) throw leaseLost(name);
  };
}

/** Runs statements inside the caller's transaction. */
export function runStatements(db: Database, queries: readonly CompiledQuery[]): void {
  for (const { sql, parameters } of queries) db.prepare(sql).run(...parameters);
}
