import { ConfigError, SyncError } from '../../../model/errors.ts';
import { transact, type Database } from '../connection/transact.ts';
import { GROWTH_OUTDATED, type LeaseProof } from '../../warehouse.ts';
import { causeCode } from '../widening/exclusive-step.ts';

/** A big index takes its time; nobody who reads waits for it. */
const BUILD_MS = 6 * 3_600_000;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it stops an autovacuum that is in somebody's way. */
const LOCK_MS = 3_000;
/** What readers may have to wait for. */
const EXCLUSIVE_LOCK_MS = 300;

/**
 * SQLSTATEs of what is nobody's fault here: locks and long transactions of others, rights, things of others that stand
 * on it, rows that do not fit. The copy is whole without it, and the next time tries again.
 */
const LEFT = new Set(
  '55P03 40P01 40001 57014 42501 2BP01 42P16 42P07 42710 23503 0A000 42804 42830 54000 42883 42P01'.split(' '),
);

/** The same in our own words: views of others, locks of others, another resource that changes its tables. */
const OTHERS: ReadonlySet<string> = new Set(['column_in_use', 'warehouse_busy', GROWTH_OUTDATED]);

/** Runs one statement in a transaction of its own under the lease; leaves out what others do not let it do. */
export async function alone(database: Database, lease: () => LeaseProof, statement: string): Promise<void> {
  const lockMs = statement.startsWith('CREATE') || statement.includes(' ADD ') ? LOCK_MS : EXCLUSIVE_LOCK_MS;
  await orLeft(
    transact(database, async ({ execute }) => void (await execute(statement)), {
      lease: lease(),
      statementMs: BUILD_MS,
      lockMs,
      retryForMs: 0,
    }),
  );
}

/** Resolves also if others did not let it be done. */
export async function orLeft(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    const isNamed = error instanceof SyncError || error instanceof ConfigError;
    const isLeft = (isNamed && OTHERS.has(error.code)) || LEFT.has(causeCode(error));
    if (!isLeft) throw error;
  }
}
