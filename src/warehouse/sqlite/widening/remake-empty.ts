import type { Database } from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { ResourceShape, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';
import { createDeletedIndex, createTable } from './ddl.ts';

/**
 * Makes a table anew with all its columns at once, if nothing is in it, nobody but us has made anything of it, and it
 * has no column of the source yet: with every column that is added by itself SQLite reads its whole schema again. False
 * if it was left as it is.
 */
export function remakeEmpty(
  db: Database,
  own: Kysely<OwnTables>,
  before: ResourceShape,
  after: ResourceShape,
  table: string,
): boolean {
  const [was, is] = [before, after].map(({ tables }) => tables.find(({ name }) => name === table));
  if (was === undefined || is === undefined || !isBare(was) || !isUntouched(db, own, was, before)) return false;
  const id = VIEW_DIALECT.id(table);
  if (db.prepare(`SELECT 1 FROM ${id} LIMIT 1`).get() !== undefined) return false;
  db.exec(`DROP TABLE ${id}`);
  db.exec(createTable(own, is, after.tables).sql);
  db.exec(createDeletedIndex(own, is).sql);
  return true;
}

/** A resource's own table with its key and the columns of ours. */
function isBare({ path, columns }: TableShape): boolean {
  return path.length === 0 && columns.length === 0;
}

/** True if it stands as we made it, with our index and nothing else. */
function isUntouched(db: Database, own: Kysely<OwnTables>, table: TableShape, { tables }: ResourceShape): boolean {
  const made = db
    .prepare<[string], string>(
      `SELECT "sql" FROM sqlite_schema WHERE "tbl_name" = ? COLLATE NOCASE AND "sql" IS NOT NULL ORDER BY "type" = 'table' DESC`,
    )
    .pluck()
    .all(table.name);
  const index = createDeletedIndex(own, table).sql.replace(' IF NOT EXISTS', '');
  return made.length === 2 && made[0] === createTable(own, table, tables).sql && made[1] === index;
}
