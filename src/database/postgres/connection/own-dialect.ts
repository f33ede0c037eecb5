// Lets Kysely build the statements on internal tables, such as `own.selectFrom('_sync_runs')`, and runs them by the
// functions of this folder. Kysely's Postgres dialect would use its own connections, without retries and checked leases.
import { type Dialect, PostgresAdapter, PostgresQueryCompiler } from 'kysely';
import type { SqlResult } from '../../database.ts';
import { createStatementDialect } from '../../statement-dialect.ts';
import type { Session } from './session.ts';
import { execute, executeInUtc, type PostgresSchema } from './transact.ts';

/** For single statements, which wait for the server. Only in a transaction is the time zone certain to be UTC. */
export function ownDialect(database: PostgresSchema): Dialect {
  const run = execute(database);
  const runInUtcTransaction = executeInUtc(database);
  return postgresDialect((text, values) => (values.some(isTimestamp) ? runInUtcTransaction : run)(text, values));
}

const TIMESTAMP = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?$/;

function isTimestamp(value: unknown): boolean {
  return typeof value === 'string' && TIMESTAMP.test(value);
}

/**
 * For statements within the caller's transaction. Postgres refuses all statements after a failed one, without its cause:
 * they throw the first error again.
 */
export function sessionDialect(session: Session): Dialect {
  let firstFailure: { error: unknown } | null = null;
  return postgresDialect(async (text, values) => {
    try {
      return await session.execute(text, values);
    } catch (error) {
      firstFailure ??= { error };
      throw firstFailure.error;
    }
  });
}

function postgresDialect(run: (text: string, values: readonly unknown[]) => Promise<SqlResult<object>>): Dialect {
  return createStatementDialect(new PostgresAdapter(), new PostgresQueryCompiler(), async ({ sql, parameters }) => {
    const { rows, rowCount } = await run(sql, parameters);
    return { rows, numAffectedRows: BigInt(rowCount ?? 0) };
  });
}
