import type { Database } from 'better-sqlite3';
import type { Cell, Column, TableRows, TableShape } from '../../../model/table.ts';
import { emptiedColumns, stampedColumns } from '../../own-columns.ts';
import type { PageRows } from '../../warehouse.ts';

/** Writes the rows, children and versions of a page. Runs inside the caller's transaction. */
export function writePage(db: Database, page: PageRows): void {
  const [root, ...children] = page.rows;
  if (root !== undefined) writeRoot(db, root, page);
  const replaced = page.records.filter((record) => page.isRewrite === true || record.version > 1);
  for (const child of replaced.length === 0 ? [] : page.children) {
    const remove = db.prepare(deleteStatement(child));
    for (const { key } of replaced) remove.run(key);
  }
  for (const { table, width, cells } of children) {
    const insert = db.prepare(insertStatement(table));
    for (let at = 0; at < cells.length; at += width) insert.run(...cells.slice(at, at + width).map(bound));
  }
  writeVersions(db, page);
}

function writeRoot(db: Database, { table, width, cells }: TableRows, page: PageRows): void {
  const insert = db.prepare(upsertStatement(table));
  const stamped = stampedColumns(table);
  page.records.forEach((record, row) => {
    const bounds = cells.slice(row * width, (row + 1) * width).map(bound);
    const stamps = stamped.map(({ stamp }) => stamp(record, page));
    insert.run(...bounds.slice(0, table.key.length), ...stamps, ...bounds.slice(table.key.length));
  });
}

/** Remembers the source of every written record and closes or drops the one before, as the history policy says. */
function writeVersions(db: Database, { resource, history, requestedAt, records }: PageRows): void {
  if (history === 'none') return;
  // The body comes as the bytes that it was sent as: SQLite only has to know that they are text.
  const insert = db.prepare(
    `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
     VALUES (?, ?, ?, ?, 'upsert', ?, CAST(? AS TEXT))`,
  );
  const close = db.prepare(
    'UPDATE "_sync_versions" SET "valid_to" = ? WHERE "resource" = ? AND "id" = ? AND "version" = ?',
  );
  const drop = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');
  for (const { key, version, hash, bytes } of records) {
    if (version > 1 && history === 'all') close.run(requestedAt, resource, key, version - 1);
    if (version > 1 && history === 'latest') drop.run(resource, key);
    insert.run(resource, key, version, requestedAt, hash, bytes);
  }
}

/** The columns of a row as they are inserted. */
function insertedColumns(table: TableShape): string[] {
  return [...table.key, ...[...stampedColumns(table), ...table.columns].map(({ name }) => name)];
}

/** A name as it stands in a statement. */
function id(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Clients of SQLite read no more than milliseconds. */
function placeholder({ type }: Column): string {
  return type === 'timestamp' ? `replace(substr(?, 1, 23), '.000', '')` : '?';
}

function insertStatement(table: TableShape): string {
  const names = insertedColumns(table);
  const ours = names.slice(table.columns.length).map(() => '?');
  // Without a name of its own, a table that is called `excluded` would be meant by both.
  return `INSERT INTO ${id(table.name)} AS "_there" (${names.map(id).join(', ')})
    VALUES (${[...ours, ...table.columns.map(placeholder)].join(', ')})`;
}

/** The insert of a row of a resource's own table, which overwrites what was there. */
function upsertStatement(table: TableShape): string {
  const names = insertedColumns(table).slice(table.key.length).map(id);
  const updates = names.map((name) => `${name} = excluded.${name}`);
  const emptied = emptiedColumns(table).map(({ name }) => `${id(name)} = NULL`);
  // The guard makes a late page harmless: what was asked for later stays.
  return `${insertStatement(table)}
    ON CONFLICT (${table.key.map(id).join(', ')}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= "_there"."_synced_at"`;
}

/** Deletes the rows of one record, by its key. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${id(table.name)} WHERE ${id(table.key[0] ?? '')} = ?`;
}

/** A cell as SQLite takes it. */
function bound(cell: Cell): string | number | bigint | null {
  return typeof cell === 'boolean' ? Number(cell) : cell;
}
