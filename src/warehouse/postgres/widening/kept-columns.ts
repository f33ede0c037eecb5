import { escapeIdentifier as quoted, escapeLiteral } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import { samePath } from '../../../shape/columns/source-path.ts';
import { textHash } from '../../../shape/records/fingerprint.ts';
import type { Session } from '../connection/session.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';

const FILLER = '_sync_keep_';

/** The name of the function, and of the trigger, by which the columns of a table are filled that stay beside wider ones. */
export function fillerName(table: string): string {
  return `${FILLER}${textHash(table)}`;
}

/**
 * The statements by which columns that stay beside wider ones go on being filled, whoever writes the rows, with what
 * fits their types; none where that is so already.
 */
export async function fillerStatements({ execute }: Session, tables: readonly TableShape[]): Promise<string[]> {
  const wanted = tables.flatMap((table) => {
    const body = fillerBody(table);
    return body === null ? [] : [{ table: table.name, body, name: fillerName(table.name) }];
  });
  if (wanted.length === 0) return [];
  const { rows } = await execute<{ name: string; body: string }>(
    `SELECT proname AS name, prosrc AS body FROM pg_proc
     JOIN pg_trigger ON tgfoid = pg_proc.oid AND tgname = proname
     WHERE pronamespace = current_schema()::regnamespace AND proname = ANY($1)`,
    [wanted.map(({ name }) => name)],
  );
  const standing = new Map(rows.map(({ name, body }) => [name, body]));
  return wanted
    .filter(({ name, body }) => standing.get(name) !== body)
    .flatMap(({ table, name, body }) => [
      `CREATE OR REPLACE FUNCTION ${quoted(name)}() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS ${escapeLiteral(body)}`,
      `DROP TRIGGER IF EXISTS ${quoted(name)} ON ${quoted(table)}`,
      `CREATE TRIGGER ${quoted(name)} BEFORE INSERT OR UPDATE ON ${quoted(table)}
        FOR EACH ROW EXECUTE FUNCTION ${quoted(name)}()`,
    ]);
}

/** Null if the table has no such columns. */
function fillerBody({ columns, kept = [] }: TableShape): string | null {
  const assignments = kept.flatMap((column) => {
    const wider = columns.find(({ path }) => samePath(path, column.path));
    if (wider === undefined) return [];
    const value = VIEW_DIALECT.converted(`NEW.${quoted(wider.name)}`, wider.type, column.type);
    return [`NEW.${quoted(column.name)} := ${value};`];
  });
  return assignments.length === 0 ? null : `BEGIN ${assignments.join(' ')} RETURN NEW; END`;
}
