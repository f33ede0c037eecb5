import { CompiledQuery, sql, type Kysely } from 'kysely';
import { messageOf } from '../../../model/errors.ts';
import type { ExecuteSql } from '../../database.ts';
import { findDependents, inUse, refuseOthersViews } from '../widening/dependents.ts';

/**
 * Gives all times of internal tables in the schema the zone UTC. In a session in UTC no row is rewritten. Views on these
 * tables are created again with the new types, within the caller's transaction. Throws `InUse` if that fails.
 */
export async function zoneTimes(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ table: string; name: string }>`SELECT relname AS "table", attname AS "name" FROM pg_class
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND pg_catalog.starts_with(relname, '_sync_')
      AND atttypid = 'timestamp'::regtype ORDER BY attrelid, attnum`.execute(db);
  const uses = Array.from(
    Map.groupBy(rows, ({ table }) => table),
    ([table, times]) => ({ table, columns: times.map(({ name }) => name) }),
  );
  const run: ExecuteSql = async <Row extends object>(text: string, values: readonly unknown[] = []) => {
    // The statement declares the type of its rows.
    // oxlint-disable-next-line no-unsafe-type-assertion
    const query = CompiledQuery.raw(text, [...values]) as CompiledQuery<Row>;
    const { rows: found } = await db.executeQuery(query);
    return { rows: found, rowCount: found.length };
  };
  const noViews = { views: [], retyped: [], detached: new Map(), options: new Map() };
  const dependents = await findDependents(run, uses, noViews);
  refuseOthersViews(dependents);
  for (const { kind, name } of dependents.toReversed()) await run(`DROP ${kind} ${name}`);
  for (const { table, columns } of uses) {
    const changes = columns.map((name) => sql`ALTER ${sql.id(name)} TYPE timestamptz`);
    await sql`ALTER TABLE ${sql.id(table)} ${sql.join(changes)}`.execute(db);
  }
  for (const dependent of dependents) {
    try {
      for (const statement of dependent.statements) await run(statement);
    } catch (error) {
      throw inUse([dependent], new Error(messageOf(error), { cause: error }));
    }
  }
}
