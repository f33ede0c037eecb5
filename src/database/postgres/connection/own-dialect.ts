// Runs the statements of `own`, Kysely's handle on internal tables: each one by itself, or within a transaction of ours.
import { type Dialect, PostgresAdapter, PostgresQueryCompiler } from 'kysely';
import type { SqlResult } from '../../database.ts';
import { createStatementDialect } from '../../statement-dialect.ts';
import type { Session } from './session.ts';
import { type PostgresSchema, execute, executeInUtc } from './transact.ts';

/**
 * For single statements, which wait for the server. A statement with a time runs in a transaction, because only there the
 * time zone is certain to be UTC.
 */
export function ownDialect(database: PostgresSchema): Dialect {
  const run = execute(database);
  const runInUtc = executeInUtc(database);
  return postgresDialect((text, values) => (values.some(isTime) ? runInUtc : run)(text, values));
}

const TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?$/;

function isTime(value: unknown): boolean {
  return typeof value === 'string' && TIME.test(value);
}

/**
 * For statements within the caller's transaction. After a failed statement all later ones fail as well: they report the
 * first error again.
 */
export function sessionDialect(session: Session): Dialect {
  let first: { error: unknown } | null = null;
  return postgresDialect(async (text, values) => {
    try {
      return await session.execute(text, values);
    } catch (error) {
      first ??= { error };
      throw first.error;
    }
  });
}

function postgresDialect(run: (text: string, values: readonly unknown[]) => Promise<SqlResult<object>>): Dialect {
  return createStatementDialect(new PostgresAdapter(), new PostgresQueryCompiler(), async ({ sql, parameters }) => {
    const { rows, rowCount } = await run(sql, parameters);
    return { rows, numAffectedRows: BigInt(rowCount ?? 0) };
  });
}
