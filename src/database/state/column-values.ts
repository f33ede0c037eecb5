import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { ValueChange } from '../../model/schema-change.ts';
import type { TableShape } from '../../model/table.ts';
import type { OwnTables, SchemaChangeRow, TimestampText } from '../own-tables.ts';
import type { TableAccess } from '../reading.ts';
import { commentKey, ROWS_PER_STATEMENT } from './column-catalog.ts';
import { inParts } from './in-parts.ts';

type Reading = TableAccess;

/** Those of the keys whose rows are live and were last written before this moment. */
export async function keysWrittenBefore(
  { own, rows: { named } }: Reading,
  { name, key: [first = ''] }: TableShape,
  keys: readonly string[],
  before: TimestampText,
): Promise<string[]> {
  if (keys.length === 0) return [];
  const key = sql.id(first);
  const { rows } = await sql<{ key: string }>`SELECT ${key} AS "key" FROM ${named(name)}
    WHERE ${key} IN (${sql.join(keys)}) AND "_deleted_at" IS NULL AND "_synced_at" < ${before}`.execute(own);
  return rows.map((row) => row.key);
}

/** Of the records with these keys: how many have rows in the table, and how many have a value in each column. */
export async function countFilled(
  { own, rows: { named } }: Reading,
  { name, key: [first = ''] }: TableShape,
  columns: readonly string[],
  keys: readonly string[],
): Promise<{ records: number; filled: Map<string, number> }> {
  const key = sql.id(first);
  const counts = columns.map(
    (column, at) => sql`count(DISTINCT CASE WHEN ${sql.id(column)} IS NOT NULL THEN ${key} END) AS ${sql.id(`n${at}`)}`,
  );
  const { rows } = await sql<Record<string, number>>`
    SELECT ${sql.join([sql`count(DISTINCT ${key}) AS "records"`, ...counts])}
    FROM ${named(name)} WHERE ${key} IN (${sql.join(keys)})`.execute(own);
  const counted = columns.map((column, at) => [column, rows[0]?.[`n${at}`] ?? 0] as const);
  return { records: rows[0]?.['records'] ?? 0, filled: new Map(counted) };
}

/** True if a live row shows a value in the column of the view; `since`: one that was written later. */
export async function showsValue(
  { own, rows: { named } }: Reading,
  view: string,
  column: string,
  since: TimestampText | null = null,
): Promise<boolean> {
  const isLater = since === null ? sql`` : sql`AND "_synced_at" > ${since}`;
  const found = sql`SELECT 1 FROM ${named(view)} WHERE ${sql.id(column)} IS NOT NULL ${isLater} LIMIT 1`;
  return (await found.execute(own)).rows.length > 0;
}

/** What was last found of the values of a column. */
export interface KnownChange {
  kind: ValueChange;
  at: TimestampText;
}

/** Of the columns of a resource that lost their values, by `commentKey`. */
export async function readValueChanges(own: Kysely<OwnTables>, resource: string): Promise<Map<string, KnownChange>> {
  const rows = await own
    .selectFrom('_sync_schema_changes')
    .select(['table_name', 'column_name', 'kind', 'changed_at'])
    .where('resource', '=', resource)
    .where('kind', 'is not', null)
    .orderBy('changed_at')
    .execute();
  const known = new Map<string, KnownChange>();
  for (const { table_name, column_name, kind, changed_at: at } of rows) {
    const column = commentKey(table_name, column_name);
    if (kind !== null) known.set(column, { kind, at });
  }
  return known;
}

export function saveValueChanges(own: Kysely<OwnTables>, rows: readonly SchemaChangeRow[]): CompiledQuery[] {
  return inParts(rows, ROWS_PER_STATEMENT).map((part) => own.insertInto('_sync_schema_changes').values(part).compile());
}

/** The live views of tables, by table, and the names of their columns by source path. */
export async function readLiveColumns(
  own: Kysely<OwnTables>,
  tables: readonly TableShape[],
): Promise<Map<string, LiveColumns>> {
  const views = new Map(
    tables.flatMap(({ name }) => [`${name}_live`, `${name}_live_view`].map((view) => [view, name])),
  );
  const rows = await own
    .selectFrom('_sync_view_columns')
    .select(['view_name', 'column_name', 'source_path'])
    .where('source_path', 'is not', null)
    .orderBy('position')
    .where('view_name', 'in', [...views.keys()])
    .execute();
  const found = new Map<string, LiveColumns>();
  for (const { view_name: view, column_name, source_path: source } of rows) {
    const table = views.get(view) ?? '';
    const columns = found.get(table) ?? { view, names: new Map<string, string>() };
    // The exact text of a number comes behind its column.
    if (source !== null && !columns.names.has(source)) columns.names.set(source, column_name);
    found.set(table, columns);
  }
  return found;
}

export interface LiveColumns {
  view: string;
  names: Map<string, string>;
}
