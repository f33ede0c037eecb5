import { sql, type Kysely } from 'kysely';
import type { Column, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';

/** Keys of the live rows whose cells in the column come last, the last one first. */
export async function latestKeys(
  own: Kysely<OwnTables>,
  schema: string,
  table: TableShape,
  column: Column,
  limit: number,
): Promise<string[]> {
  const [key, time] = [sql.id(table.key[0] ?? ''), sql.id(column.name)];
  const { rows } = await sql<{ key: string }>`SELECT ${key} AS "key" FROM ${sql.id(schema, table.name)}
    WHERE "_deleted_at" IS NULL AND ${time} IS NOT NULL ORDER BY ${time} DESC LIMIT ${limit}`.execute(own);
  return rows.map((row) => row.key);
}

/** Live rows without a time in the column: without any value, or with one that does not begin as a time does. */
export async function countUntimed(
  own: Kysely<OwnTables>,
  schema: string,
  table: TableShape,
  column: Column,
): Promise<number> {
  const time = sql.id(column.name);
  const isText = column.type === 'text' || column.type === 'json';
  const isNone = isText ? sql`coalesce(ltrim(${time}::text, '"'), '') !~ '^[0-9]'` : sql`${time} IS NULL`;
  const { rows } = await sql<{ n: number }>`SELECT count(*) AS n FROM ${sql.id(schema, table.name)}
    WHERE "_deleted_at" IS NULL AND ${isNone}`.execute(own);
  return rows[0]?.n ?? 0;
}
