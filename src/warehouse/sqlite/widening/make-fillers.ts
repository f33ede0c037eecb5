import type { Database } from 'better-sqlite3';
import type { TableShape } from '../../../model/table.ts';
import { samePath } from '../../../shape/columns/source-path.ts';
import { textHash } from '../../../shape/records/fingerprint.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';

/**
 * Makes the triggers by which columns that stay beside wider ones go on being filled, whoever writes the rows, with what
 * fits their types. Inside the caller's transaction.
 */
export function makeFillers(db: Database, tables: readonly TableShape[]): void {
  for (const table of tables) {
    for (const [name, statement] of fillers(table)) {
      const standing = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = ? AND sql = ?");
      if (standing.get(name, statement) !== undefined) continue;
      db.exec(`DROP TRIGGER IF EXISTS "${name}"`);
      db.exec(statement);
    }
  }
}

const id = (name: string): string => VIEW_DIALECT.id(name);

/** By the name of the trigger. */
function fillers({ name: table, key, columns, kept = [] }: TableShape): [string, string][] {
  const filled = kept.flatMap((column) => {
    const wider = columns.find(({ path }) => samePath(path, column.path));
    if (wider === undefined) return [];
    const value = VIEW_DIALECT.converted(`NEW.${id(wider.name)}`, wider.type, column.type);
    return [{ wider: id(wider.name), assignment: `${id(column.name)} = ${value}` }];
  });
  if (filled.length === 0) return [];
  const isRow = key.map((column) => `${id(column)} = NEW.${id(column)}`).join(' AND ');
  const assignments = filled.map(({ assignment }) => assignment).join(', ');
  const fill = `ON ${id(table)} BEGIN UPDATE ${id(table)} SET ${assignments} WHERE ${isRow}; END`;
  const updated = [...new Set(filled.map(({ wider }) => wider))].join(', ');
  return [
    ['insert', 'INSERT'],
    ['update', `UPDATE OF ${updated}`],
  ].map(([kind, event]) => {
    const name = `_sync_keep_${kind}_${textHash(table)}`;
    return [name, `CREATE TRIGGER "${name}" AFTER ${event} ${fill}`];
  });
}
