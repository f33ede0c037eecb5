import { escapeIdentifier as quoted } from 'pg';
import { ConfigError, SyncError } from '../../../model/errors.ts';
import type { TableRemoval } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { transact, type Database } from '../connection/transact.ts';
import { emptiedViews } from '../views/attach-views.ts';
import { causeCode } from './exclusive-step.ts';

/** Something else depends on it. */
const IN_USE = '2BP01';

/** Drops tables and keeps the views of ours that stand on them, empty. Throws `ConfigError('table_in_use')` and `SyncError`. */
export async function dropTables(database: Database, removal: TableRemoval): Promise<void> {
  const { lease, tables, views, statements } = removal;
  try {
    await transact(
      database,
      async (session) => {
        for (const statement of await emptiedViews(session, [...views.keys()], tables))
          await session.execute(statement);
        for (const statement of await keysTo(session, tables)) await session.execute(statement);
        if (tables.length > 0) await session.execute(`DROP TABLE IF EXISTS ${tables.map(quoted).join(', ')}`);
        for (const { sql, parameters } of statements) await session.execute(sql, parameters);
      },
      { lease },
    );
  } catch (error) {
    throw causeCode(error) === IN_USE ? tableInUse(error) : error;
  }
}

/** Takes keys of ours off that lead to the tables: they come back with them. */
export async function keysTo({ execute }: Session, tables: readonly string[]): Promise<string[]> {
  const { rows } = await execute<{ statement: string }>(
    `SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS statement FROM pg_constraint
      WHERE contype = 'f' AND starts_with(conname, '_sync_')
        AND confrelid = ANY(ARRAY(SELECT to_regclass(quote_ident(name)) FROM unnest($1::text[]) AS name))`,
    [tables],
  );
  return rows.map(({ statement }) => statement);
}

/** For what stands on the tables themselves. */
export function tableInUse(error: unknown): ConfigError {
  const cause = error instanceof SyncError ? error.cause : error;
  const detail = cause instanceof Error && 'detail' in cause ? ` (${String(cause.detail)})` : '';
  return new ConfigError('table_in_use', `a table is to be made anew, and something of others stands on it${detail}`, {
    hint: 'drop it, run the same command again, and make it again on the views of the copy, such as content_live, which stay',
    cause,
  });
}
