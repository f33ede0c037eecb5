import { escapeIdentifier as quoted } from 'pg';
import type { LeaseProof } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { transact, type Database } from '../connection/transact.ts';

/** Readers of a table wait while we wait for its lock: half a second, then they go on, and we try again. */
const LOCK_MS = 600;
const LEAST_LOCK_MS = 10;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it stops an autovacuum that is in somebody's way. */
const VACUUM_MS = 3_000;
/** A reader may hold a table for minutes. */
const LOCKED_FOR_MS = 120_000;
/** A large table takes its time to be rewritten, and so do hundreds of views on a busy server. */
const STATEMENT_MS = 6 * 3_600_000;

/** A transaction that locks readers out of some tables. */
export interface ExclusiveStep {
  session: Session;
  /** Locks the tables, and runs `drops` before, which take locks as well. */
  lock: (tables: readonly string[], drops?: readonly string[]) => Promise<void>;
  /** Runs statements, which may take hours once the locks are held. */
  run: (statements: readonly string[]) => Promise<void>;
}

/**
 * Runs `work` in one transaction under the lease, and again while another session holds a lock that it needs. Throws
 * `SyncError` (`warehouse_busy` if that lasts for two minutes).
 */
export async function exclusively<T>(
  database: Database,
  lease: LeaseProof,
  work: (step: ExclusiveStep) => Promise<T>,
): Promise<T> {
  const options = { lockMs: LOCK_MS, statementMs: STATEMENT_MS, lockedForMs: LOCKED_FOR_MS, lease };
  return transact(database, (session) => work(exclusiveStep(session)), options);
}

function lockTable(name: string, mode: 'SHARE UPDATE EXCLUSIVE' | 'ACCESS EXCLUSIVE', timeoutMs: number): string {
  return `SET LOCAL lock_timeout TO ${timeoutMs}; LOCK TABLE ${quoted(name)} IN ${mode} MODE`;
}

function exclusiveStep(session: Session): ExclusiveStep {
  return {
    session,
    lock: async (tables, drops = []) => {
      // Nobody who reads waits behind this one. A big table that has just been filled is being vacuumed.
      for (const table of tables) await session.execute(lockTable(table, 'SHARE UPDATE EXCLUSIVE', VACUUM_MS));
      // A reader that waits for the first of them waits for all.
      const each = Math.max(LEAST_LOCK_MS, Math.floor(LOCK_MS / (tables.length + drops.length)));
      for (const drop of drops) await session.execute(`SET LOCAL lock_timeout TO ${each}; ${drop}`);
      for (const table of tables) await session.execute(lockTable(table, 'ACCESS EXCLUSIVE', each));
      await session.execute(`SET LOCAL lock_timeout TO ${LOCK_MS}`);
    },
    run: async (statements) => {
      if (statements.length > 0) await session.execute(statements.join('; '));
    },
  };
}
