import { escapeIdentifier } from 'pg';
import type { Cell, TableShape } from '../../../model/table.ts';
import type { StoredRow } from '../../warehouse.ts';
import { execute, type Database } from '../connection/transact.ts';

/** What stands already among `keys`; `updated` names the column to bring along. */
export type StoredRows = (
  table: TableShape,
  keys: readonly string[],
  updated: string | null,
) => Promise<Map<string, StoredRow>>;

/** A row as it is read. */
type Found = StoredRow & { key: string };

/** Looks rows up by key, in one statement of a text that is made once per table shape and kept. */
export function storedRows(database: Database): StoredRows {
  const lookups = new WeakMap<TableShape, { updated: string | null; text: string }>();
  const ask = execute(database);
  return async (table, keys, updated) => {
    let lookup = lookups.get(table);
    if (lookup?.updated !== updated) {
      lookup = { updated, text: lookupText(database.schema, table, updated) };
      lookups.set(table, lookup);
    }
    const { rows } = await ask<Found & Record<string, Cell>>(lookup.text, [keys]);
    return new Map(rows.map(({ key, ...row }) => [key, row]));
  };
}

function lookupText(schema: string, table: TableShape, updated: string | null): string {
  const key = escapeIdentifier(table.key[0] ?? '');
  return `SELECT ${key} AS "key", "_hash" AS "hash", "_version" AS "version",
    "_synced_at" AT TIME ZONE 'UTC' AS "syncedAt", "_deleted_at" AT TIME ZONE 'UTC' AS "deletedAt",
    ${updatedText(table, updated)} AS "updated"
    FROM ${escapeIdentifier(schema)}.${escapeIdentifier(table.name)} WHERE ${key} = ANY($1)`;
}

/** Moments as UTC text, in whatever zone the connection is. */
function updatedText(table: TableShape, updated: string | null): string {
  if (updated === null) return 'NULL::text';
  const isMoment = table.columns.some(({ name, type }) => name === updated && type === 'timestamp');
  return isMoment ? `${escapeIdentifier(updated)} AT TIME ZONE 'UTC'` : escapeIdentifier(updated);
}
