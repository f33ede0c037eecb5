import { escapeIdentifier as quoted } from 'pg';
import type { LeaseProof } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { type Database, transact } from '../connection/transact.ts';

/** Readers wait for a table while we wait for its lock: after this time they continue, and we try again. */
const LOCK_TIMEOUT_MS = 600;
const MIN_LOCK_TIMEOUT_MS = 10;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it cancels an autovacuum that blocks us. */
const VACUUM_TIMEOUT_MS = 3_000;
/** A reader may hold a table for minutes. */
const RETRY_FOR_MS = 120_000;
/** Rewriting a large table takes hours. */
const STATEMENT_TIMEOUT_MS = 6 * 3_600_000;

/**
 * Runs `work` in one transaction under the lease, and again while another session holds a lock that it needs. Throws
 * `SyncError` (`warehouse_busy` after two minutes).
 */
export async function transactExclusively<T>(
  database: Database,
  lease: LeaseProof,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  return transact(database, work, {
    lockMs: LOCK_TIMEOUT_MS,
    statementMs: STATEMENT_TIMEOUT_MS,
    lockedForMs: RETRY_FOR_MS,
    lease,
  });
}

/** Runs `drops`, which take locks as well, and locks the tables. */
export async function lockTables(
  { execute }: Session,
  tables: readonly string[],
  drops: readonly string[],
): Promise<void> {
  const withTimeout = (timeoutMs: number, statement: string) =>
    execute(`SET LOCAL lock_timeout TO ${timeoutMs}; ${statement}`);
  // This lock blocks no reader. A large table that was just filled may be vacuumed.
  for (const table of tables) {
    await withTimeout(VACUUM_TIMEOUT_MS, `LOCK TABLE ${quoted(table)} IN SHARE UPDATE EXCLUSIVE MODE`);
  }
  // A reader that waits for the first table waits for all of them.
  const each = Math.max(MIN_LOCK_TIMEOUT_MS, Math.floor(LOCK_TIMEOUT_MS / (tables.length + drops.length)));
  for (const drop of drops) await withTimeout(each, drop);
  for (const table of tables) await withTimeout(each, `LOCK TABLE ${quoted(table)} IN ACCESS EXCLUSIVE MODE`);
  await execute(`SET LOCAL lock_timeout TO ${LOCK_TIMEOUT_MS}`);
}

/** Runs statements in one round trip. */
export async function runTogether({ execute }: Session, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await execute(statements.join('; '));
}
