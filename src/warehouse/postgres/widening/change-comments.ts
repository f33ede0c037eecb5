import { transact, type Database } from '../connection/transact.ts';
import type { ShapeGrowth } from '../../warehouse.ts';

/** Lets tables and columns that stand say what the profile says of them now. What somebody has written over it stays. */
export async function changeComments(
  database: Database,
  comments: NonNullable<ShapeGrowth['comments']>,
): Promise<void> {
  if (comments.length === 0) return;
  const change = async ({ execute }: Parameters<Parameters<typeof transact>[1]>[0]): Promise<void> => {
    const { rows } = await execute<{ statement: string }>(CHANGED, [
      comments.map(({ table }) => table),
      comments.map(({ column }) => column),
      comments.map(({ base }) => base),
      comments.map(({ comment }) => comment),
    ]);
    if (rows.length > 0) await execute(rows.map(({ statement }) => statement).join(';'));
  };
  await transact(database, change, { mayRepeat: true });
}

/** A comment of ours may say more behind what the profile says. */
const CHANGED = `
  WITH said AS (
    SELECT to_regclass(quote_ident(table_name)) AS relation, *
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS said (table_name, column_name, base, comment)
  ), standing AS (
    SELECT said.*, attname, CASE WHEN column_name IS NULL THEN obj_description(relation, 'pg_class')
      ELSE col_description(relation, attnum) END AS stands
    FROM said LEFT JOIN pg_attribute ON attrelid = relation AND attname = column_name AND NOT attisdropped
    WHERE relation IS NOT NULL AND (column_name IS NULL OR attname IS NOT NULL)
  )
  SELECT CASE WHEN column_name IS NULL THEN format('COMMENT ON TABLE %I IS %L', table_name, comment)
    ELSE format('COMMENT ON COLUMN %I.%I IS %L', table_name, column_name, comment) END AS statement
  FROM standing
  WHERE stands IS NULL OR (position(base IN stands) > 0 AND NOT starts_with(stands, comment))`;
