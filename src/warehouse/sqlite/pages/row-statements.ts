import { sql, type Kysely } from 'kysely';
import type { Cell, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { BoundCell } from './multi-row-insert.ts';

/** What every row of a resource's own table is stamped with, besides `_deleted_at`: right after the key. */
const STAMPS = ['_hash', '_version', '_synced_at'] as const;

/** The columns of a row as they are inserted. */
export function insertedColumns(table: TableShape): string[] {
  const stamps = table.path.length === 0 ? STAMPS : [];
  return [...table.key, ...stamps, ...table.columns.map((column) => column.name)];
}

/** The insert of so many rows; into a resource's own table it overwrites what was there. */
export function insertText(own: Kysely<OwnTables>, table: TableShape, rows: number): string {
  const names = insertedColumns(table);
  const row = `(${Array(names.length).fill('?').join(',')})`;
  const columns = sql.join(names.map((name) => sql.id(name)));
  // Without a name of its own, a table that is called `excluded` would be meant by both.
  const insert = sql`INSERT INTO ${sql.id(table.name)} AS "_there" (${columns}) VALUES ${sql.raw(Array(rows).fill(row).join(','))}`;
  if (table.path.length > 0) return insert.compile(own).sql;
  const keys = sql.join(table.key.map((name) => sql.id(name)));
  const updates = names.slice(table.key.length).map((name) => sql`${sql.id(name)} = excluded.${sql.id(name)}`);
  // The guard makes a late page harmless: what was asked for later stays.
  return sql`${insert} ON CONFLICT (${keys}) DO UPDATE SET ${sql.join(updates)}, "_deleted_at" = NULL
    WHERE excluded."_synced_at" >= "_there"."_synced_at"`.compile(own).sql;
}

/** Deletes the rows of one record, by its key. */
export function deleteText(own: Kysely<OwnTables>, table: TableShape): string {
  const key = sql.id(table.key[0] ?? '');
  return sql`DELETE FROM ${sql.id(table.name)} WHERE ${key} = ${sql.val('')}`.compile(own).sql;
}

/** A cell as SQLite takes it. */
export function bound(cell: Cell | undefined): BoundCell {
  if (cell === true) return 1;
  if (cell === false) return 0;
  return cell ?? null;
}
