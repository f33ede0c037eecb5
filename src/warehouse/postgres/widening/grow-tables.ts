import type { CompiledQuery, Kysely } from 'kysely';
import { ConfigError } from '../../../model/errors.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { ShapeGrowth } from '../../warehouse.ts';
import { writeComments } from './comments.ts';
import { addColumns, createDeletedIndex, createTable } from './ddl.ts';
import { refuseStrangers, refuseWithoutCreate } from '../connection/schema-rights.ts';
import type { Session } from '../connection/session.ts';
import { execute as asking, transact, type Database } from '../connection/transact.ts';
import { widenColumns } from './widen-columns.ts';
import { wideningsOf } from './widening.ts';

/**
 * Makes the tables that are new, adds and widens columns of those that are not, and runs the growth's statements with
 * the last of it: all this appears at once. Begins and ends its own transactions, each under the lease. Stopped in
 * between, it is to be called again with the same growth. Throws `ConfigError` (`table_exists`, `column_in_use`,
 * `warehouse_refused`, `schema_unsafe`) and `SyncError`.
 */
export async function growTables(database: Database, own: Kysely<OwnTables>, growth: ShapeGrowth): Promise<void> {
  const { before, after, changes, statements, lease } = growth;
  const known = new Set(before?.tables.map((table) => table.name));
  const fresh = after.tables.filter(({ name }) => !known.has(name));
  const added = changes.filter(({ table, from }) => known.has(table) && from === null);
  const altered = [...Map.groupBy(added, ({ table }) => table)];
  const names = altered.map(([table]) => table);
  const widenings = wideningsOf(growth);
  const ask = asking(database);
  // New columns alone need no more than the table.
  if (fresh.length + widenings.length > 0) await refuseWithoutCreate(ask, database);
  // With it, statements and whole views that stand there are read and run again.
  if (widenings.length > 0) await refuseStrangers(ask, database);
  await widenColumns(database, lease, widenings, {
    tables: names,
    prepare: async (session) => {
      for (const table of fresh) {
        await refuseForeignTable(session, database.schema, table.name);
        await execute(session, createTable(own, table));
        if (table.path.length === 0) await execute(session, createDeletedIndex(own, table));
      }
      for (const statement of statements) await execute(session, statement);
      await writeComments(
        session,
        fresh.map(({ name }) => name),
      );
    },
    alter: altered.map(
      ([table, more]) =>
        addColumns(
          own,
          table,
          more.map(({ column }) => column),
        ).sql,
    ),
  });
  // Not while readers wait. Where this is cut off, the next column brings the comments of all.
  if (names.length > 0) await transact(database, (session) => writeComments(session, names));
}

/** What somebody else made under this name is never written to. */
async function refuseForeignTable(session: Session, schema: string, name: string): Promise<void> {
  const { rowCount } = await session.execute(
    'SELECT 1 FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relname = $2',
    [schema, name],
  );
  if (rowCount === 0) return;
  throw new ConfigError('table_exists', `the warehouse has a table or view "${name}" that content-sync did not make`, {
    hint: 'rename it, or point `warehouse` at a database or schema of its own',
  });
}

async function execute(session: Session, query: CompiledQuery): Promise<void> {
  await session.execute(query.sql, query.parameters);
}
