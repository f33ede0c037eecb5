import type { Database } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { SoftDelete, Purge } from '../../warehouse.ts';
import { createDeletedIndex } from '../widening/ddl.ts';
import { deleteStatement } from './row-statements.ts';

interface DeletedRow {
  version: number;
  hash: string;
}

/**
 * Marks live rows as deleted and takes their child rows away; the record's body stays in its version. Returns the keys
 * of those that were live. Runs inside the caller's transaction.
 */
export function softDelete(db: Database, own: Kysely<OwnTables>, deletion: SoftDelete): string[] {
  const { resource, history, table, gone } = deletion;
  // A table that was made by an earlier version has no such index yet.
  db.exec(createDeletedIndex(own, table).sql);
  const mark = db.prepare<unknown[], DeletedRow>(markText(own, table));
  const children = deletion.children.map((child) => db.prepare(deleteStatement(own, child)));
  const remember = versionWriter(db, history);
  const deleted: string[] = [];
  for (const { key, confirmedAt } of gone) {
    const row = mark.get(confirmedAt, confirmedAt, key, confirmedAt);
    if (row === undefined) continue;
    for (const child of children) child.run(key);
    remember(resource, key, row, confirmedAt);
    deleted.push(key);
  }
  return deleted;
}

/** Removes rows that were deleted long ago, and their versions. Runs inside the caller's transaction. */
export function purge(db: Database, own: Kysely<OwnTables>, { resource, table, deletedBefore, limit }: Purge): number {
  const keys = db.prepare<[string, number], string>(oldText(own, table)).pluck().all(deletedBefore, limit);
  const row = db.prepare(deleteStatement(own, table));
  const versions = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');
  const suspects = db.prepare('DELETE FROM "_sync_suspects" WHERE "resource" = ? AND "record_id" = ?');
  for (const key of keys) {
    row.run(key);
    versions.run(resource, key);
    suspects.run(resource, key);
  }
  return keys.length;
}

/** A version that says so: one of its own if all are kept, else the latest one becomes it and keeps its body. */
function versionWriter(
  db: Database,
  history: SoftDelete['history'],
): (resource: string, key: string, row: DeletedRow, at: string) => void {
  if (history === 'none') return () => undefined;
  if (history === 'latest') {
    const mark = db.prepare(
      `UPDATE "_sync_versions" SET "version" = ?, "valid_from" = ?, "op" = 'delete' WHERE "resource" = ? AND "id" = ?`,
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
