import type { Database } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';

/** The oldest row, the newest, and some in between, by the order in which they came. */
export function liveSample(
  db: Database,
  own: Kysely<OwnTables>,
  table: TableShape,
  resource: string,
  limit: number,
): string[] {
  const name = sql.id(table.name);
  const range =
    sql`SELECT (SELECT min(rowid) FROM ${name}) AS "first", (SELECT max(rowid) FROM ${name}) AS "last"`.compile(
      own,
    ).sql;
  const { first, last } = db.prepare<[], Record<'first' | 'last', number | null>>(range).get() ?? NO_ROWS;
  if (first === null || last === null) return [];
  const next = db.prepare<[number, string], string>(sampleText(own, table)).pluck();
  const step = (last - first) / Math.max(1, limit - 1);
  const places = Array.from({ length: limit }, (_, at) => Math.floor(first + at * step));
  const keys = places.map((place) => next.get(place, resource) ?? next.get(first, resource));
  return [...new Set(keys.filter((key) => key !== undefined))];
}

const NO_ROWS = { first: null, last: null } as const;

function sampleText(own: Kysely<OwnTables>, table: TableShape): string {
  const key = sql.id(table.key[0] ?? '');
  const suspected = sql`SELECT 1 FROM "_sync_suspects" s WHERE s."resource" = ${''} AND s."record_id" = t.${key}`;
  return sql`SELECT t.${key} FROM ${sql.id(table.name)} t WHERE t.rowid >= ${0} AND t."_deleted_at" IS NULL
    AND NOT EXISTS (${suspected}) ORDER BY t.rowid LIMIT 1`.compile(own).sql;
}
