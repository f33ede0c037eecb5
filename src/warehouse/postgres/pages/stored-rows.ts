import { escapeIdentifier } from 'pg';
import type { Column, TableShape } from '../../../model/table.ts';
import type { StoredRow, Warehouse } from '../../warehouse.ts';
import { errorCode } from '../connection/errors.ts';
import { textArray } from '../connection/text-array.ts';
import { execute, type Database } from '../connection/transact.ts';

const OTHER_ELEMENTS = '42804';

/** Looks rows up by key, in one statement of a text that is made once per table shape and kept. */
export function storedRows(database: Database): Warehouse['stored'] {
  const lookups = new WeakMap<TableShape, { updated: string; text: string }>();
  const ask = execute(database);
  return async (table, keys, updated) => {
    let lookup = lookups.get(table);
    const names = updated.map(({ name }) => name).join('\n');
    if (lookup?.updated !== names) {
      lookup = { updated: names, text: lookupText(database.schema, table, updated) };
      lookups.set(table, lookup);
    }
    const { text } = lookup;
    const { rows } = await ask<StoredRow & { key: string }>(text, [textArray(keys)]).catch((error: unknown) => {
      // Somebody has given the key another type, of which the server reads texts.
      if (errorCode(error) !== OTHER_ELEMENTS) throw error;
      return ask<StoredRow & { key: string }>(text, [keys]);
    });
    return new Map(rows.map(({ key, ...row }) => [key, row]));
  };
}

function lookupText(schema: string, table: TableShape, updated: readonly Column[]): string {
  const key = escapeIdentifier(table.key[0] ?? '');
  return `SELECT ${key} AS "key", "_hash" AS "hash", "_version" AS "version",
    "_synced_at" AT TIME ZONE 'UTC' AS "syncedAt", "_deleted_at" AT TIME ZONE 'UTC' AS "deletedAt",
    ${firstCell(updated)} AS "updated"
    FROM ${escapeIdentifier(schema)}.${escapeIdentifier(table.name)} WHERE ${key} = ANY($1)`;
}

/** Moments as UTC text, in whatever zone the connection is. */
function firstCell(columns: readonly Column[]): string {
  const isMixed = new Set(columns.map(({ type }) => type)).size > 1;
  const cells = columns.map(({ name, type }) => {
    const cell = type === 'timestamp' ? `${escapeIdentifier(name)} AT TIME ZONE 'UTC'` : escapeIdentifier(name);
    if (!isMixed) return cell;
    return type === 'timestamp' ? `(${cell})::text || 'Z'` : `${cell}::text`;
  });
  return cells.length > 1 ? `COALESCE(${cells.join(', ')})` : (cells[0] ?? 'NULL::text');
}

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
