import { escapeIdentifier as quoted } from 'pg';
import { SyncError } from '../../../model/errors.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { errorCode } from '../connection/errors.ts';
import type { Session } from '../connection/session.ts';
import { transact, type Database } from '../connection/transact.ts';

/**
 * Readers of a table wait while we wait for its lock, and while we hold it. Both together stay well below two
 * seconds.
 */
const LOCK_MS = 600;
const LEAST_LOCK_MS = 10;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it stops an autovacuum that is in somebody's way. */
const VACUUM_MS = 3_000;
const WORK_MS = 900;
/** A reader may hold a table for minutes. Between two tries all others get through. */
const RETRY_FOR_MS = 120_000;
const PAUSE_MS = 500;

/** A transaction that keeps readers of some tables out for a moment. */
export interface ExclusiveStep {
  session: Session;
  /** Takes tables for ourselves, and runs `drops` before, which are as exclusive; from then on every moment counts. */
  lock: (tables: readonly string[], drops?: readonly string[]) => Promise<void>;
  /** Runs statements, each in what is left of the moment. Throws what `isTooSlow` is true for. */
  run: (statements: readonly string[]) => Promise<void>;
}

/**
 * Runs `work` in one transaction under the lease, again and again while others hold what it wants to lock, or what else passes. Throws
 * `SyncError` (`warehouse_busy` if they do not let go).
 */
export async function exclusively<T>(
  database: Database,
  lease: LeaseProof,
  work: (step: ExclusiveStep) => Promise<T>,
  passes: (error: unknown) => boolean = isLocked,
): Promise<T> {
  const deadline = performance.now() + RETRY_FOR_MS;
  for (;;) {
    try {
      return await transact(database, (session) => work(exclusiveStep(session)), { lockMs: LOCK_MS, lease });
    } catch (error) {
      if (!passes(error)) throw error;
      if (performance.now() >= deadline) throw heldByOthers(database, error);
    }
    await database.clock.sleep(PAUSE_MS);
  }
}

function lockTable(name: string, mode: 'SHARE UPDATE EXCLUSIVE' | 'ACCESS EXCLUSIVE', timeoutMs: number): string {
  return `SET LOCAL lock_timeout TO ${timeoutMs}; LOCK TABLE ${quoted(name)} IN ${mode} MODE`;
}

/** True if a statement needs longer than readers may be made to wait. */
export function isTooSlow(error: unknown): boolean {
  return causeCode(error) === '57014';
}

/** SQLSTATE of the server's error that is at the root of one of ours. */
export function causeCode(error: unknown): string {
  return errorCode(error instanceof SyncError ? error.cause : error);
}

export function isLocked(error: unknown): boolean {
  return ['55P03', '40P01'].includes(causeCode(error));
}

/** In the server's time, which is nobody's to wind. */
function exclusiveStep(session: Session): ExclusiveStep {
  let deadline = Infinity;
  return {
    session,
    lock: async (tables, drops = []) => {
      // Nobody who reads waits behind this one. A big table that has just been filled is being vacuumed.
      for (const table of tables) await session.execute(lockTable(table, 'SHARE UPDATE EXCLUSIVE', VACUUM_MS));
      // A reader that waits for the first of them waits for all.
      const each = Math.max(LEAST_LOCK_MS, Math.floor(LOCK_MS / (tables.length + drops.length)));
      for (const drop of drops) await session.execute(`SET LOCAL lock_timeout TO ${each}; ${drop}`);
      for (const table of tables) await session.execute(lockTable(table, 'ACCESS EXCLUSIVE', each));
      deadline = performance.now() + WORK_MS;
    },
    run: async (statements) => {
      if (statements.length === 0) return;
      const left = Math.max(1, Math.ceil(Math.min(WORK_MS, deadline - performance.now())));
      await session.execute(`SET LOCAL statement_timeout TO ${left}; ${statements.join('; ')}`);
    },
  };
}

function heldByOthers({ shown }: Database, cause: unknown): SyncError {
  return new SyncError('warehouse_busy', `${shown}: a table must change, and another session does not let go of it`, {
    recovery: 'stop',
    hint: 'see pg_stat_activity for transactions that stay open and end them; then run the same command again: it resumes where it stopped',
    cause,
  });
}
