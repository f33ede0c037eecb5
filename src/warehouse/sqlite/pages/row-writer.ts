import type { Database, Statement } from 'better-sqlite3';
import { type Kysely, sql } from 'kysely';
import type { TableRows, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { RowRewrite, SoftDelete, Purge } from '../../warehouse.ts';
import { createDeletedIndex } from '../widening/ddl.ts';
import { bound, deleteStatement, rewriteStatement, upsertStatement, type BoundCell } from './row-statements.ts';

/** Writes records anew that have their rows already; what is gone by now stays gone. Inside the caller's transaction. */
export function rewriteRows(db: Database, { rows, versions, children }: RowRewrite): void {
  const [root, ...lists] = rows;
  if (root === undefined) return;
  const there = updateRoot(db, root, versions);
  for (const table of children) {
    const statement = db.prepare(deleteStatement(table));
    for (const key of there) statement.run(key);
  }
  for (const list of lists) {
    const statement = db.prepare(upsertStatement(list.table, 1));
    eachRow(list, (row) => there.has(row[0]) && statement.run(row));
  }
}

/** The keys of the records that were there in that version. */
function updateRoot(db: Database, rows: TableRows, versions: RowRewrite['versions']): Set<BoundCell | undefined> {
  const statement: Statement = db.prepare(rewriteStatement(rows.table));
  const there = new Set<BoundCell | undefined>();
  eachRow(rows, ([key, ...cells]) => {
    if (statement.run(...cells, key, versions.get(String(key))).changes > 0) there.add(key);
  });
  return there;
}

function eachRow({ cells, width }: TableRows, use: (row: BoundCell[]) => void): void {
  for (let at = 0; at < cells.length; at += width) use(cells.slice(at, at + width).map(bound));
}

interface DeletedRow {
  version: number;
  hash: string;
}

/**
 * Marks live rows as deleted and takes their child rows away; what the record held stays in the versions before. Returns the keys
 * of those that were live. Runs inside the caller's transaction.
 */
export function softDelete(db: Database, own: Kysely<OwnTables>, deletion: SoftDelete): string[] {
  const { resource, history, table, gone } = deletion;
  // A table that was made by an earlier version has no such index yet.
  db.exec(createDeletedIndex(own, table).sql);
  const mark = db.prepare<unknown[], DeletedRow>(markText(own, table));
  const children = deletion.children.map((child) => db.prepare(deleteStatement(child)));
  const remember = versionWriter(db, history);
  const note = db.prepare(
    'INSERT INTO "_sync_deletes" ("resource", "id", "version", "deleted_at") VALUES (?, ?, ?, ?)',
  );
  const deleted: string[] = [];
  for (const { key, confirmedAt, deletedAt } of gone) {
    const row = mark.get(deletedAt ?? confirmedAt, confirmedAt, key, confirmedAt);
    if (row === undefined) continue;
    for (const child of children) child.run(key);
    remember(resource, key, row, confirmedAt);
    note.run(resource, key, row.version, deletedAt ?? confirmedAt);
    deleted.push(key);
  }
  return deleted;
}

/** Removes rows that were deleted long ago, and their versions. Runs inside the caller's transaction. */
export function purge(db: Database, own: Kysely<OwnTables>, { resource, table, deletedBefore, limit }: Purge): number {
  const keys = db.prepare<[string, number], string>(oldText(own, table)).pluck().all(deletedBefore, limit);
  const row = db.prepare(deleteStatement(table));
  const versions = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');
  const deletes = db.prepare('DELETE FROM "_sync_deletes" WHERE "resource" = ? AND "id" = ?');
  const suspects = db.prepare('DELETE FROM "_sync_suspects" WHERE "resource" = ? AND "record_id" = ?');
  const files = db.prepare('DELETE FROM "_sync_files" WHERE "resource" = ? AND "record_id" = ?');
  for (const key of keys) {
    row.run(key);
    files.run(resource, key);
    versions.run(resource, key);
    deletes.run(resource, key);
    suspects.run(resource, key);
  }
  return keys.length;
}

/** A version that says so: one of its own if all are kept, else the latest one becomes it. It has no body. */
function versionWriter(
  db: Database,
  history: SoftDelete['history'],
): (resource: string, key: string, row: DeletedRow, at: string) => void {
  if (history === 'none') return () => undefined;
  if (history === 'latest') {
    const mark = db.prepare(
      `UPDATE "_sync_versions" SET "version" = ?, "valid_from" = ?, "op" = 'delete', "body" = NULL, "source_text" = NULL WHERE "resource" = ? AND "id" = ?`,
    );
    return (resource, key, { version }, at) => void mark.run(version, at, resource, key);
  }
  const close = db.prepare(
    'UPDATE "_sync_versions" SET "valid_to" = ? WHERE "resource" = ? AND "id" = ? AND "valid_to" IS NULL',
  );
  const insert = db.prepare(
    `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash")
     VALUES (?, ?, ?, ?, 'delete', ?)`,
  );
  return (resource, key, { version, hash }, at) => {
    close.run(at, resource, key);
    insert.run(resource, key, version, at, hash);
  };
}

/** The guard leaves alone what was written after the service was asked. */
function markText(own: Kysely<OwnTables>, table: TableShape): string {
  return sql`UPDATE ${sql.id(table.name)} SET "_deleted_at" = ${''}, "_synced_at" = ${''}, "_version" = "_version" + 1
    WHERE ${sql.id(table.key[0] ?? '')} = ${''} AND "_deleted_at" IS NULL AND "_synced_at" <= ${''}
    RETURNING "_version" AS "version", "_hash" AS "hash"`.compile(own).sql;
}

function oldText(own: Kysely<OwnTables>, table: TableShape): string {
  return sql`SELECT ${sql.id(table.key[0] ?? '')} FROM ${sql.id(table.name)} WHERE "_deleted_at" < ${''}
    ORDER BY "_deleted_at" LIMIT ${0}`.compile(own).sql;
}
