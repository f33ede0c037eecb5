import { columnText, INDEX, type ColumnIndex } from '../key-plan.ts';
import type { OwnTables } from '../own-tables.ts';
import type { UnchangedFile } from './connection/unchanged-file.ts';
import { VIEW_DIALECT } from './views/dialect.ts';

/** Sentences that are asked for at most: a broken file has one for each of its pages. */
const MOST = 100;

/** What SQLite finds broken in the whole file, and child rows of these tables without the row that they belong to. */
export function damageIn(file: UnchangedFile<OwnTables>, tables: readonly string[]): { by: string; found: string[] } {
  const broken = [...file.rows(`PRAGMA integrity_check(${MOST})`)].map(([text]) => String(text));
  const checked = tables.flatMap((table) => [...file.rows(`PRAGMA foreign_key_check(${VIEW_DIALECT.id(table)})`)]);
  const dangling = checked.map(
    ([table, row, parent]) => `row ${String(row)} of ${String(table)} refers to none of ${String(parent)}`,
  );
  return { by: 'integrity_check', found: [...broken.filter((text) => text !== 'ok'), ...dangling.slice(0, MOST)] };
}

export function missingIndexes(file: UnchangedFile<OwnTables>, wanted: readonly ColumnIndex[]): string[] {
  const rows = file.rows("SELECT name FROM sqlite_schema WHERE type = 'index'");
  const standing = new Set([...rows].map(([name]) => String(name)));
  return wanted.map((index) => `${INDEX}${columnText(index)}`).filter((name) => !standing.has(name));
}
