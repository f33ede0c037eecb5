import type { Database } from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import type { OwnTables } from '../../own-tables.ts';
import { type TableStaging, type TableSwap, growthOutdated } from '../../warehouse.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';
import { clearNames, emptyBrokenViews, makeViews } from '../views/make-views.ts';
import { createDeletedIndex, createTable } from './ddl.ts';

const id = (name: string): string => VIEW_DIALECT.id(name);

/** Makes empty tables under other names, by the statements that make them under their own. Inside the caller's transaction. */
export function stageTables(db: Database, own: Kysely<OwnTables>, { shape, names }: TableStaging): void {
  for (const table of shape.tables) {
    const staged = names.get(table.name) ?? table.name;
    const made = createTable(own, table, shape.tables).sql;
    db.exec(`DROP TABLE IF EXISTS ${id(staged)}`);
    db.exec(made.replace(`CREATE TABLE ${id(table.name)}`, () => `CREATE TABLE ${id(staged)}`));
  }
}

interface Belonging {
  type: 'index' | 'trigger';
  name: string;
  sql: string;
}

/** Puts them in the place of others. Inside the caller's transaction. */
export function swapTables(db: Database, own: Kysely<OwnTables>, swap: TableSwap): void {
  const { shape, names, dropped, standing, views, claim } = swap;
  if (db.prepare(claim.sql).run(...claim.parameters).changes === 0) throw growthOutdated();
  const belongings = db
    .prepare<[string], Belonging>(
      `SELECT "type", "name", "sql" FROM sqlite_schema WHERE "sql" IS NOT NULL AND "type" IN ('index', 'trigger')
       AND "tbl_name" IN (SELECT value FROM json_each(?)) ORDER BY rowid`,
    )
    .all(JSON.stringify(dropped));
  clearNames(db, views);
  // Views find tables by name: they are neither rewritten nor looked at while there is none.
  db.pragma('legacy_alter_table = ON');
  try {
    for (const table of dropped.toReversed()) db.exec(`DROP TABLE IF EXISTS ${id(table)}`);
    for (const [name, staged] of names) db.exec(`ALTER TABLE ${id(staged)} RENAME TO ${id(name)}`);
  } finally {
    db.pragma('legacy_alter_table = OFF');
  }
  const [root] = shape.tables;
  if (root !== undefined) db.exec(createDeletedIndex(own, root).sql);
  makeViews(db, views);
  emptyBrokenViews(db, standing);
  for (const belonging of belongings) makeAgain(db, belonging);
}

/** Ours on columns that are gone are not wanted any more. */
function makeAgain(db: Database, { type, name, sql }: Belonging): void {
  try {
    if (db.prepare('SELECT 1 FROM sqlite_schema WHERE "name" = ?').get(name) === undefined) db.exec(sql);
  } catch (error) {
    if (name.startsWith('_sync_')) return;
    throw new ConfigError(
      'table_in_use',
      `a table is to be made anew, and the ${type} ${name} of others cannot stand on it: ${messageOf(error)}`,
      {
        hint: 'drop it, run the same command again, and make it again on the columns that are there then',
        cause: error,
      },
    );
  }
}
