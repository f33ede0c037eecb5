import type { Database } from 'better-sqlite3';
import type { PageRows } from '../../warehouse.ts';
import { multiRowInsert } from './multi-row-insert.ts';

/** Values that differ from row to row; the rest of a version's columns are the same for all. */
const WIDTH = 6;
/** The body comes as the bytes that it was sent as: SQLite only has to be told that they are text. */
const ROW = "(?,?,?,?,'upsert',?,CAST(? AS TEXT))";

/** Remembers the source of every written record and closes or drops the one before, as the history policy says. */
export function createVersionWriter(db: Database): (page: PageRows) => void {
  const insert = multiRowInsert(
    db,
    WIDTH,
    (rows) =>
      `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
       VALUES ${Array(rows).fill(ROW).join(',')}`,
  );
  const close = db.prepare(
    'UPDATE "_sync_versions" SET "valid_to" = ? WHERE "resource" = ? AND "id" = ? AND "version" = ?',
  );
  const drop = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');

  return ({ resource, history, requestedAt, records }) => {
    if (history === 'none') return;
    for (const { key, version } of records) {
      if (version === 1) continue;
      if (history === 'all') close.run(requestedAt, resource, key, version - 1);
      else drop.run(resource, key);
    }
    insert(records.length, (row, params, at) => {
      const record = records[row];
      if (record === undefined) return;
      params[at] = resource;
      params[at + 1] = record.key;
      params[at + 2] = record.version;
      params[at + 3] = requestedAt;
      params[at + 4] = record.hash;
      params[at + 5] = record.bytes;
    });
  };
}
