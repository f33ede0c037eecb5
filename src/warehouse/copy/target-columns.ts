import { execute, type Database } from '../postgres/connection/transact.ts';
import { VALUE_KINDS, type ValueKind } from './value-kinds.ts';

/** A column of a table in Postgres. */
export interface TargetColumn {
  name: string;
  /** As Postgres names it, such as `timestamp with time zone`. */
  type: string;
  kind: ValueKind;
  isInteger: boolean;
}

const INTEGERS: ReadonlySet<string> = new Set(['bigint', 'integer']);

/** The columns of a table in the database's schema, in their order; none if there is no such table. */
export async function targetColumns(database: Database, table: string): Promise<TargetColumn[]> {
  const { rows } = await execute(database)<{ name: string; type: string }>(
    `SELECT attname AS name, trim('"' FROM format_type(atttypid, NULL)) AS type FROM pg_attribute
      JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = $1 AND relname = $2 AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    [database.schema, table],
  );
  return rows.map(({ name, type }) => {
    const kind = VALUE_KINDS[type];
    if (kind === undefined) throw new Error(`${table}.${name} is of type ${type}, which no table of ours has`);
    return { name, type, kind, isInteger: INTEGERS.has(type) };
  });
}
