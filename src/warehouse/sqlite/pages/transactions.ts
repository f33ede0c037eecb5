import type { Database } from 'better-sqlite3';
import { LAST_DONE, LAST_STEP, migratedMeanwhile } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import type { RetryWhileLocked } from '../connection/wait-for-lock.ts';
import { leaseCheck, valuesOf, type WriteRefused } from './lease-check.ts';
import type { KnownSteps } from './write-page.ts';

/** Runs work in one transaction of this thread's connection, under the lease if one is given. */
export type Transact = <T>(lease: LeaseProof | undefined, work: () => T) => Promise<T>;

export const KNOWN_STEPS: KnownSteps = { lastDone: LAST_DONE, lastStep: LAST_STEP };

export function transactions(db: Database, retryWhileLocked: RetryWhileLocked): Transact {
  const check = leaseCheck(db, KNOWN_STEPS);
  return (lease, work) => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) check(valuesOf(lease));
      return work();
    });
    return retryWhileLocked(() => {
      // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
      const result = underLease(lease, () => transaction.immediate());
      lease?.committed();
      return result;
    });
  };
}

/** Does the work, and throws what is known by a code in the house's words. */
export function underLease<T>(lease: LeaseProof | undefined, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw refusalOf(error, lease?.name ?? '');
  }
}

/** What `WriteRefused` stands for, also if it comes from another thread; any other error as it is. */
export function refusalOf(error: unknown, lease: string): unknown {
  if (!(error instanceof Error && 'code' in error)) return error;
  const code: unknown = error.code;
  if (code === LOST) return leaseLost(lease);
  return code === NEWER ? (migratedMeanwhile(error.message) ?? error) : error;
}

const LOST: WriteRefused['code'] = 'lease_lost';
const NEWER: WriteRefused['code'] = 'warehouse_newer';
