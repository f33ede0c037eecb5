import { escapeIdentifier } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import { execute, type Database } from '../connection/transact.ts';

/** A table of so few blocks is read whole: there are fewer places in it than rows. */
const SMALL_BLOCKS = 8;

/** The first row, the last, and some in between, by their places in the table: about the order in which they came. */
export async function liveSample(
  database: Database,
  table: TableShape,
  resource: string,
  limit: number,
): Promise<string[]> {
  const ask = execute(database);
  const size = await ask<{ blocks: number }>(BLOCKS, [placeOf(database, table)]);
  const blocks = size.rows[0]?.blocks ?? 0;
  const key = escapeIdentifier(table.key[0] ?? '');
  const live = `SELECT t.${key} AS "key" FROM ${placeOf(database, table)} AS t WHERE t."_deleted_at" IS NULL AND NOT EXISTS (
    SELECT 1 FROM ${escapeIdentifier(database.schema)}."_sync_suspects" AS s
    WHERE s."resource" = $1 AND s."record_id" = t.${key})`;
  const isSmall = blocks <= SMALL_BLOCKS;
  const places = spread(blocks, limit).map((block) => `(${block},0)`);
  const { rows } = isSmall
    ? await ask<{ key: string }>(`${live} ORDER BY t.ctid`, [resource])
    : await ask<{ key: string }>(atPlaces(live), [resource, places]);
  const keys = rows.map((row) => row.key);
  return isSmall ? spread(keys.length, limit).flatMap((at) => keys[at] ?? []) : [...new Set(keys)];
}

const BLOCKS = `SELECT pg_relation_size($1::regclass) / current_setting('block_size')::int AS blocks`;

/** The next row from each place on: each is found without reading what lies before it. */
function atPlaces(live: string): string {
  return `SELECT sample."key" FROM pg_catalog.unnest($2::tid[]) WITH ORDINALITY AS place("at", "nth"),
    LATERAL (${live} AND t.ctid >= place."at" LIMIT 1) AS sample ORDER BY place."nth"`;
}

/** Up to `most` whole numbers from 0 to below `count`, the first and the last among them, the same distance apart. */
function spread(count: number, most: number): number[] {
  const step = (count - 1) / Math.max(1, most - 1);
  return [...new Set(Array.from({ length: Math.min(most, count) }, (_, at) => Math.floor(at * Math.max(step, 1))))];
}

function placeOf({ schema }: Database, table: TableShape): string {
  return `${escapeIdentifier(schema)}.${escapeIdentifier(table.name)}`;
}
