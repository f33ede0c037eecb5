import { columnText, INDEX, type ColumnIndex } from '../key-plan.ts';
import type { OwnTables } from '../own-tables.ts';
import type { UnchangedFile } from './connection/unchanged-file.ts';

/** Sentences that are asked for at most: a broken file has one for each of its pages. */
const MOST = 100;

/** What SQLite finds broken in the whole file. */
export function damageIn(file: UnchangedFile<OwnTables>): { by: string; found: string[] } {
  const broken = [...file.rows(`PRAGMA integrity_check(${MOST})`)].map(([text]) => String(text));
  const dangling = [...file.rows('PRAGMA foreign_key_check')].map(
    ([table, row, parent]) => `row ${row} of ${table} refers to a row that ${parent} has not`,
  );
  return { by: 'integrity_check', found: [...broken.filter((text) => text !== 'ok'), ...dangling.slice(0, MOST)] };
}

export function missingIndexes(file: UnchangedFile<OwnTables>, wanted: readonly ColumnIndex[]): string[] {
  const rows = file.rows("SELECT name FROM sqlite_schema WHERE type = 'index'");
  const standing = new Set([...rows].map(([name]) => String(name)));
  return wanted.map((index) => `${INDEX}${columnText(index)}`).filter((name) => !standing.has(name));
}
