import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

const OPERAND = String.raw`((?:\w+\.)?(?:\w+|"(?:[^"]|"")*"))`;
const PATH = `('(?:[^']|'')*')`;
const FIRST = 'min(w."window_start")';

/**
 * SQLite before 3.38 cannot open a file of which one view has `->` or `->>`, and before 3.45 it takes no aggregate that a
 * subquery refers to. A run makes the views of its source again; this rewrites those of resources that the profile no
 * longer has.
 */
export async function up(db: Kysely<unknown>, { hasTypedExpressions }: MigrationDialect): Promise<void> {
  if (hasTypedExpressions) return;
  const { rows } = await sql<{ name: string; text: string }>`SELECT m.name, m.sql AS text FROM sqlite_schema AS m
    JOIN "_sync_views" AS v ON v."view_name" = m.name WHERE m.type = 'view'`.execute(db);
  for (const { name, text } of rows) {
    const rewritten = withoutAggregate(withoutArrows(text));
    if (rewritten === text) continue;
    await sql`DROP VIEW ${sql.id(name)}`.execute(db);
    await sql.raw(rewritten).execute(db);
  }
}

function withoutAggregate(view: string): string {
  if (!view.includes(FIRST)) return view;
  return view
    .replace(FIRST, 'w."window_start"')
    .replace('IS NULL) THEN 1 = 1', 'IS NULL ORDER BY w."window_start" LIMIT 1) THEN 1 = 1');
}

/** `json_extract` of two paths returns an array of both values as they are written; the first is never there. */
function withoutArrows(view: string): string {
  return view
    .replaceAll(
      new RegExp(`${OPERAND} -> ${PATH}`, 'g'),
      "substr(substr(json_extract($1, '$$[999999999]', $2), -1, -1000000000), 7)",
    )
    .replaceAll(new RegExp(`${OPERAND} ->> ${PATH}`, 'g'), 'json_extract($1, $2)')
    .replaceAll(/\((CASE WHEN instr\(r, (?:(?! ELSE r END).)* ELSE r END)\) ->> ('\$')/g, 'json_extract($1, $2)');
}
