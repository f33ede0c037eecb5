import type { Database, Statement } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { Cell, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { StoredRow } from '../../warehouse.ts';

type Lookup = Statement<
  [string],
  [hash: string, version: number, syncedAt: string, deletedAt: string | null, updated: Cell]
>;

/** What stands already among `keys`; `updated` names the column to bring along. */
export type StoredRows = (table: TableShape, keys: readonly string[], updated: string | null) => Map<string, StoredRow>;

/** Looks rows up by key, through statements that are compiled once per table shape and kept. */
export function storedRows(db: Database, own: Kysely<OwnTables>): StoredRows {
  const lookups = new WeakMap<TableShape, { updated: string | null; statement: Lookup }>();
  return (table, keys, updated) => {
    let lookup = lookups.get(table);
    if (lookup?.updated !== updated) {
      lookup = { updated, statement: db.prepare<[string], never>(lookupText(own, table, updated)).raw() };
      lookups.set(table, lookup);
    }
    return readAll(db, lookup.statement, keys);
  };
}

/** One read transaction around all lookups of a page: entering one costs as much as the lookup itself. */
function readAll(db: Database, lookup: Lookup, keys: readonly string[]): Map<string, StoredRow> {
  const found = new Map<string, StoredRow>();
  const read = db.transaction(() => {
    for (const key of keys) {
      const row = lookup.get(key);
      if (row === undefined) continue;
      found.set(key, { hash: row[0], version: row[1], syncedAt: row[2], deletedAt: row[3], updated: row[4] });
    }
  });
  read.deferred();
  return found;
}

function lookupText(own: Kysely<OwnTables>, table: TableShape, updated: string | null): string {
  const last = updated === null ? sql`NULL` : sql.id(updated);
  return sql`SELECT "_hash", "_version", "_synced_at", "_deleted_at", ${last} FROM ${sql.id(table.name)}
    WHERE ${sql.id(table.key[0] ?? '')} = ${sql.val('')}`.compile(own).sql;
}
