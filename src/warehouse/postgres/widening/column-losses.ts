import { ConfigError } from '../../../model/errors.ts';
import type { Session } from '../connection/session.ts';
import type { Widening } from './widening.ts';

/**
 * Throws where a constraint, a default or statistics that people made stand on a column: they would silently go with
 * one that gives its place to another, and may mean something else for one of another type.
 */
export async function refuseLosses({ execute }: Session, { table, columns }: Widening): Promise<void> {
  const { rows } = await execute<{ what: string }>(
    `SELECT DISTINCT pg_describe_object(classid, objid, objsubid) AS what FROM pg_depend
     JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = to_regclass(quote_ident($1)) AND attname = ANY($2)
       AND deptype = 'a' AND classid <> 'pg_class'::regclass`,
    [table.name, columns.map(({ column }) => column.name)],
  );
  if (rows.length === 0) return;
  const names = rows.map(({ what }) => what).join(', ');
  throw new ConfigError('column_in_use', `columns of ${table.name} must widen, and this stands on them: ${names}`, {
    hint: 'drop it, run the same command again, and make it again to fit the wider type',
  });
}
