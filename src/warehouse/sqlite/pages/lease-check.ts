import type { Database } from 'better-sqlite3';
import type { LeaseProof } from '../../lease-proof.ts';

/** A proof as it stands when a transaction begins. */
export type LeaseValues = Pick<LeaseProof, 'name' | 'token' | 'fence' | 'expiresAt'> & { commits: number };

export function valuesOf({ name, token, fence, expiresAt, commits }: LeaseProof): LeaseValues {
  return { name, token, fence, expiresAt, commits: commits() };
}

/** Says why nothing may be written; the codes stand for errors that only the main thread can make. */
export class WriteRefused extends Error {
  readonly code: 'lease_lost' | 'warehouse_newer';

  constructor(code: WriteRefused['code'], message: string) {
    super(message);
    this.code = code;
  }
}

const RENEW = `UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
  WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`;

/**
 * Returns what proves and renews a lease, inside the caller's transaction. Throws `WriteRefused`: `lease_lost`, or
 * `warehouse_newer` with the name of the last step as its message, if that is behind the last one that we know.
 */
export function leaseCheck(
  db: Database,
  { lastDone: text, lastStep }: { lastDone: string; lastStep: string },
): (lease: LeaseValues) => void {
  const lastDone = db.prepare(`SELECT ${text}`).pluck();
  const renew = db.prepare(RENEW);
  return ({ name, token, fence, expiresAt, commits }) => {
    const last = lastDone.get();
    if (typeof last === 'string' && last > lastStep) throw new WriteRefused('warehouse_newer', last);
    if (renew.run(expiresAt, name, token, fence, commits).changes === 0) throw new WriteRefused('lease_lost', name);
  };
}
