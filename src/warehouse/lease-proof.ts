import type { TimestampText } from './own-tables.ts';

/**
 * The owner of a resource, as checked inside every transaction that writes it; and that all that the owner was told to
 * be committed is still there, because what it writes next rests on that.
 */
export interface LeaseProof {
  name: string;
  token: number;
  /** Never given twice, while a token may be: by a database that has forgotten an owner. */
  fence: string;
  /** The lease lives until then once the transaction is through. */
  expiresAt: TimestampText;
  /** The owner's transactions so far: a database that knows of fewer was set back. */
  commits: () => number;
  /** To be called after each one, even if nobody can tell whether it was committed: then it is found out. */
  committed: () => void;
}
