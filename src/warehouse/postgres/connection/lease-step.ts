import { LAST_DONE, LAST_STEP, migratedMeanwhile } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import type { Step } from './batch.ts';
import { refusing, refusedWith } from './refusing.ts';

/**
 * Holds the lease's row until the transaction is over, so that nobody takes the resource over meanwhile. Fails with
 * `lease_lost` if somebody has, or if the database was set back to an earlier state, and with `warehouse_newer` if
 * a newer version has migrated the tables meanwhile.
 */
export function leaseStep({ name, token, fence, expiresAt, commits }: LeaseProof): Step {
  return {
    text: HOLD,
    values: [expiresAt, name, token, fence, commits(), LAST_STEP],
    explain: (error) => {
      const found = refusedWith(error);
      if (found === null) return error;
      return found === '' ? leaseLost(name) : (migratedMeanwhile(found) ?? error);
    },
  };
}

/** One step may take several transactions under one proof: the lease's own renewals in between stay. */
const HOLD = `WITH held AS (UPDATE "_sync_leases" SET "expires_at" = greatest("expires_at", $1::timestamptz), "commits" = "commits" + 1
    WHERE "name" = $2 AND "token" = $3 AND "fence" = $4 AND "commits" >= $5 RETURNING ${LAST_DONE} AS "last")
  SELECT ${refusing(`count(*) = 1 AND coalesce(max("last"), '') COLLATE "C" <= $6`, 'max("last")')} FROM held`;
