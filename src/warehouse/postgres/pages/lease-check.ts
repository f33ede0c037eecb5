import { SyncError } from '../../../model/errors.ts';
import { LAST_DONE, migratedMeanwhile } from '../../migrate.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';

/**
 * Holds the lease's row until the transaction is over, so that nobody takes the resource over meanwhile. Throws
 * `lease_lost` where somebody has, or where the database was set back to an earlier state, and `warehouse_newer` where
 * a newer version has migrated the tables meanwhile.
 */
export function leaseStep({ name, token, fence, expiresAt, commits }: LeaseProof): Step {
  return {
    // One step may take several transactions under one proof: the lease's own renewals in between stay.
    text: `UPDATE "_sync_leases" SET "expires_at" = greatest("expires_at", $1::timestamp), "commits" = "commits" + 1
      WHERE "name" = $2 AND "token" = $3 AND "fence" = $4 AND "commits" >= $5 RETURNING ${LAST_DONE} AS "lastDone"`,
    values: [expiresAt, name, token, fence, commits()],
    refuse: ({ lastDone }) => migratedMeanwhile(lastDone),
    ifNone: () =>
      new SyncError('lease_lost', `another process has taken over ${name}; nothing of this was written`, {
        recovery: 'stop',
        hint: 'let the other process finish: it goes on from the last committed page',
      }),
  };
}
