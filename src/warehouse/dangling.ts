import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { OwnTables } from './own-tables.ts';

/** A column that holds keys of the records of another table. */
export interface References {
  table: string;
  column: string;
  /** False for a child table, in which deleted records have no rows. */
  isMarked: boolean;
  /** The resource's own table and its key. */
  target: { table: string; key: string };
}

/** References of live rows, and those among them whose record is not there or deleted. */
export interface Dangling {
  references: number;
  dangling: number;
  /** One of their values; null if there are none. */
  example: string | null;
}

/** What is needed of `RowQueryDialect`. */
interface TextDialect {
  named: (table: string) => RawBuilder<unknown>;
  compared: (text: RawBuilder<unknown>) => RawBuilder<unknown>;
}

/** One statement that reads both tables. Keys are texts, whatever type the references have. */
export async function danglingIn(
  own: Kysely<OwnTables>,
  { named, compared }: TextDialect,
  { table, column, isMarked, target }: References,
): Promise<Dangling> {
  const [value, key] = [sql`CAST(f.${sql.id(column)} AS TEXT)`, sql`t.${sql.id(target.key)}`];
  const isLive = isMarked ? sql`AND f."_deleted_at" IS NULL` : sql``;
  const { rows } = await sql<{ n: number; dangling: number; example: string | null }>`
    SELECT count(*) AS n, count(CASE WHEN ${key} IS NULL THEN 1 END) AS dangling,
      min(CASE WHEN ${key} IS NULL THEN ${value} END) AS example
    FROM ${named(table)} AS f LEFT JOIN ${named(target.table)} AS t
      ON ${compared(key)} = ${compared(value)} AND t."_deleted_at" IS NULL
    WHERE f.${sql.id(column)} IS NOT NULL ${isLive}`.execute(own);
  const { n = 0, dangling = 0, example = null } = rows[0] ?? {};
  return { references: n, dangling, example };
}
