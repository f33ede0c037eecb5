import type { Database, Statement } from 'better-sqlite3';
import type { CompiledQuery } from 'kysely';
import { LAST_DONE, migratedMeanwhile } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import type { RetryWhileLocked } from './wait-for-lock.ts';

/** What runs work in one transaction, under the lease if one is given. */
export function transactions(db: Database, retryWhileLocked: RetryWhileLocked) {
  const [checkVersion, checkLease] = [versionChecker(db), leaseChecker(db)];
  return <T>(lease: LeaseProof | undefined, work: () => T): Promise<T> => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) {
        checkVersion();
        checkLease(lease);
      }
      return work();
    });
    return retryWhileLocked(() => {
      // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
      const result = transaction.immediate();
      lease?.committed();
      return result;
    });
  };
}

/** What runs statements that are compiled once and kept. Inside the caller's transaction. */
export function statementRunner(db: Database): (queries: readonly CompiledQuery[]) => void {
  const statements = new Map<string, Statement>();
  return (queries) => {
    for (const query of queries) {
      let statement = statements.get(query.sql);
      if (statement === undefined) statements.set(query.sql, (statement = db.prepare(query.sql)));
      statement.run(...query.parameters);
    }
  };
}

/** Throws `warehouse_newer` if a newer version has migrated the tables meanwhile. */
function versionChecker(db: Database): () => void {
  const lastDone = db.prepare(`SELECT ${LAST_DONE}`).pluck();
  return () => {
    const fault = migratedMeanwhile(lastDone.get());
    if (fault !== null) throw fault;
  };
}

/** Throws `lease_lost` if somebody else owns the resource by now, or the file was set back. */
function leaseChecker(db: Database): (lease: LeaseProof) => void {
  const renew = db.prepare(`UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
    WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`);
  return ({ name, token, fence, expiresAt, commits }) => {
    if (renew.run(expiresAt, name, token, fence, commits()).changes > 0) return;
    throw leaseLost(name);
  };
}
