import { transact, type Database } from '../connection/transact.ts';
import type { ViewChange } from '../../view-dialect.ts';
import type { ShapeGrowth } from '../../warehouse.ts';

/**
 * Lets tables and columns that stand say what the profile says of them now, where nobody has written over it, and views
 * that read otherwise what they are. Asks first what stands: most of hundreds of columns say it already.
 */
export async function changeComments(
  database: Database,
  comments: NonNullable<ShapeGrowth['comments']>,
  views: readonly ViewChange[],
): Promise<void> {
  const changed = views.filter(({ isChanged }) => isChanged);
  if (comments.length + changed.length === 0) return;
  const ofViews = changed.flatMap(commentsOfView);
  const change = async ({ execute }: Parameters<Parameters<typeof transact>[1]>[0]): Promise<void> => {
    const { rows } = await execute<{ statement: string }>(CHANGED, [
      comments.map(({ table }) => table),
      comments.map(({ column }) => column),
      comments.map(({ base }) => base),
      comments.map(({ comment }) => comment),
      ofViews.map(({ view }) => view),
      ofViews.map(({ column }) => column),
      ofViews.map(({ comment }) => comment),
    ]);
    if (rows.length > 0) await execute(rows.map(({ statement }) => statement).join(';'));
  };
  await transact(database, change, { mayRepeat: true });
}

function commentsOfView({ name: view, description, columns }: ViewChange): ViewComment[] {
  const all: ViewComment[] = [{ view, column: null, comment: description }];
  for (const column of columns) all.push({ view, column: column.name, comment: column.description ?? '' });
  return all;
}

interface ViewComment {
  view: string;
  column: string | null;
  comment: string;
}

/** A comment of ours on a table may say more behind what the profile says. */
const CHANGED = `
  WITH said AS (
    SELECT to_regclass(pg_catalog.quote_ident(relation_name)) AS relation, * FROM (
      SELECT 'TABLE' AS kind, * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
        AS said (relation_name, column_name, base, comment)
      UNION ALL
      SELECT 'VIEW', view_name, column_name, NULL, comment FROM unnest($5::text[], $6::text[], $7::text[])
        AS said (view_name, column_name, comment)) AS each
  ), standing AS (
    SELECT said.*, attname, CASE WHEN column_name IS NULL THEN obj_description(relation, 'pg_class')
      ELSE col_description(relation, attnum) END AS stands
    FROM said LEFT JOIN pg_attribute ON attrelid = relation AND attname = column_name AND NOT attisdropped
    WHERE relation IS NOT NULL AND (column_name IS NULL OR attname IS NOT NULL)
  )
  SELECT CASE WHEN column_name IS NULL THEN pg_catalog.format('COMMENT ON %s %I IS %L', kind, relation_name, comment)
    ELSE pg_catalog.format('COMMENT ON COLUMN %I.%I IS %L', relation_name, column_name, comment) END AS statement
  FROM standing
  WHERE CASE kind WHEN 'VIEW' THEN coalesce(stands, '') <> comment
    ELSE stands IS NULL OR (position(base IN stands) > 0 AND NOT pg_catalog.starts_with(stands, comment)) END`;
