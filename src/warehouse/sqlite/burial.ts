import type { Database } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { TableShape } from '../../model/table.ts';
import type { OwnTables } from '../own-tables.ts';
import type { Burial, LiveRows } from '../warehouse.ts';
import { deleteText } from './row-statements.ts';

interface Buried {
  version: number;
  hash: string;
}

/**
 * Marks live rows as deleted and takes their child rows away; the record's body stays in its version. Returns the keys
 * of those that were live. Runs inside the caller's transaction.
 */
export function bury(db: Database, own: Kysely<OwnTables>, burial: Burial): string[] {
  const { resource, history, table, keys, confirmedAt } = burial;
  const mark = db.prepare<unknown[], Buried>(markText(own, table));
  const children = burial.children.map((child) => db.prepare(deleteText(own, child)));
  const remember = versionWriter(db, history);
  const buried: string[] = [];
  for (const key of keys) {
    const row = mark.get(confirmedAt, confirmedAt, key, confirmedAt);
    if (row === undefined) continue;
    for (const child of children) child.run(key);
    remember(resource, key, row, confirmedAt);
    buried.push(key);
  }
  return buried;
}

/** A version that says so: of its own where all are kept, else the latest one becomes it and keeps its body. */
function versionWriter(
  db: Database,
  history: Burial['history'],
): (resource: string, key: string, row: Buried, at: string) => void {
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

export async function liveKeys(own: Kysely<OwnTables>, table: TableShape, rows: LiveRows): Promise<string[]> {
  const key = sql.id(table.key[0] ?? '');
  const found = await sql<{ key: string }>`SELECT ${key} AS "key" FROM ${sql.id(table.name)}
    WHERE ${key} > ${rows.after} AND "_deleted_at" IS NULL AND "_synced_at" < ${rows.writtenBefore}
    ORDER BY ${key} LIMIT ${rows.limit}`.execute(own);
  return found.rows.map((row) => row.key);
}
