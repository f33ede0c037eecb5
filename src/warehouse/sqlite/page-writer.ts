import type { Database, Statement } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { Cell, TableRows, TableShape } from '../../model/table.ts';
import type { OwnTables } from '../own-tables.ts';
import type { PageCommit, WrittenRecord } from '../warehouse.ts';

/** Rows per statement: more gain nothing on SQLite and make binding dearer. */
const ROWS_PER_STATEMENT = 20;
const MAX_VARIABLES = 32_766;
const VERSION_COLUMNS = ['resource', 'id', 'version', 'valid_from', 'op', 'hash', 'body'] as const;
/** The body comes as the bytes that it was sent as: SQLite only has to be told that they are text. */
const VERSION_VALUES = "(?,?,?,?,'upsert',?,CAST(? AS TEXT))";

type BoundCell = string | number | bigint | Buffer | null;

/**
 * Writes the rows, children and versions of a page through statements that are compiled once per table shape and
 * kept. Runs inside the caller's transaction.
 */
export interface PageWriter {
  write(page: PageCommit): void;
}

export function createPageWriter(db: Database, own: Kysely<OwnTables>): PageWriter {
  const inserts = new WeakMap<TableShape, InsertCache>();
  const deletes = new WeakMap<TableShape, Statement>();
  const insertVersions = insertCache(db, VERSION_COLUMNS.length - 1, (rows) => versionInsert(own, rows));
  const closeVersion = db.prepare(
    'UPDATE "_sync_versions" SET "valid_to" = ? WHERE "resource" = ? AND "id" = ? AND "version" = ?',
  );
  const dropVersions = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');

  function writeTable(rows: TableRows, records: readonly WrittenRecord[] | null, requestedAt: string): void {
    const { table } = rows;
    let cache = inserts.get(table);
    if (cache === undefined) {
      const extra = records === null ? 0 : 3;
      cache = insertCache(db, rows.width + extra, (count) => tableInsert(own, table, count));
      inserts.set(table, cache);
    }
    const keys = table.key.length;
    const count = rows.cells.length / rows.width;
    cache.each(count, (row, params, at) => {
      const from = row * rows.width;
      let to = at;
      for (let cell = 0; cell < keys; cell += 1) params[to++] = bound(rows.cells[from + cell]);
      if (records !== null) {
        const record = records[row];
        params[to++] = record?.hash ?? null;
        params[to++] = record?.version ?? null;
        params[to++] = requestedAt;
      }
      for (let cell = keys; cell < rows.width; cell += 1) params[to++] = bound(rows.cells[from + cell]);
    });
  }

  function deleteChildren(table: TableShape, records: readonly WrittenRecord[]): void {
    let statement = deletes.get(table);
    if (statement === undefined) {
      const text = sql`DELETE FROM ${sql.id(table.name)} WHERE ${sql.id(table.key[0] ?? '')} = ${sql.val('')}`;
      statement = db.prepare(text.compile(own).sql);
      deletes.set(table, statement);
    }
    for (const { key } of records) statement.run(key);
  }

  function writeVersions(page: PageCommit): void {
    for (const { key, version } of page.records) {
      if (version === 1) continue;
      if (page.history === 'all') closeVersion.run(page.requestedAt, page.resource, key, version - 1);
      else dropVersions.run(page.resource, key);
    }
    insertVersions.each(page.records.length, (row, params, at) => {
      const record = page.records[row];
      if (record === undefined) return;
      params[at] = page.resource;
      params[at + 1] = record.key;
      params[at + 2] = record.version;
      params[at + 3] = page.requestedAt;
      params[at + 4] = record.hash;
      params[at + 5] = record.bytes;
    });
  }

  return {
    write(page) {
      const [root, ...children] = page.rows;
      const replaced = page.records.filter((record) => record.version > 1);
      if (root !== undefined) writeTable(root, page.records, page.requestedAt);
      for (const child of page.children) deleteChildren(child, replaced);
      for (const child of children) writeTable(child, null, page.requestedAt);
      if (page.history !== 'none') writeVersions(page);
    },
  };
}

interface InsertCache {
  /** Runs the insert over `count` rows; `fill` puts one row's values into `params` from index `at` on. */
  each(count: number, fill: (row: number, params: BoundCell[], at: number) => void): void;
}

/** Multi-row statements by their number of rows: the full batch, and whatever is left over at a page's end. */
function insertCache(db: Database, width: number, text: (rows: number) => string): InsertCache {
  const statements = new Map<number, Statement>();
  const batch = Math.max(1, Math.min(ROWS_PER_STATEMENT, Math.floor(MAX_VARIABLES / width)));
  return {
    each(count, fill) {
      for (let start = 0; start < count; start += batch) {
        const rows = Math.min(batch, count - start);
        let statement = statements.get(rows);
        if (statement === undefined) statements.set(rows, (statement = db.prepare(text(rows))));
        const params: BoundCell[] = [];
        for (let row = 0; row < rows; row += 1) fill(start + row, params, row * width);
        statement.run(params);
      }
    },
  };
}

function tableInsert(own: Kysely<OwnTables>, table: TableShape, rows: number): string {
  const isRoot = table.path.length === 0;
  const stamps = isRoot ? ['_hash', '_version', '_synced_at'] : [];
  const names = [...table.key, ...stamps, ...table.columns.map((column) => column.name)];
  const target = sql`INSERT INTO ${sql.id(table.name)} (${sql.join(names.map((name) => sql.id(name)))}) VALUES ${valueList(names.length, rows)}`;
  if (!isRoot) return target.compile(own).sql;
  const updates = names.slice(table.key.length).map((name) => sql`${sql.id(name)} = excluded.${sql.id(name)}`);
  // The guard makes a late page harmless: what was asked for later stays.
  return sql`${target} ON CONFLICT (${sql.join(table.key.map((name) => sql.id(name)))}) DO UPDATE SET ${sql.join(updates)},
    "_deleted_at" = NULL WHERE excluded."_synced_at" >= ${sql.id(table.name)}."_synced_at"`.compile(own).sql;
}

function versionInsert(own: Kysely<OwnTables>, rows: number): string {
  const names = VERSION_COLUMNS.map((name) => sql.id(name));
  return sql`INSERT INTO "_sync_versions" (${sql.join(names)}) VALUES ${sql.raw(Array(rows).fill(VERSION_VALUES).join(','))}`.compile(
    own,
  ).sql;
}

function valueList(width: number, rows: number) {
  const row = `(${Array(width).fill('?').join(',')})`;
  return sql.raw(Array(rows).fill(row).join(','));
}

function bound(cell: Cell | undefined): BoundCell {
  if (cell === true) return 1;
  if (cell === false || cell === undefined) return cell === false ? 0 : null;
  return cell;
}
