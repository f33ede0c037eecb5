import type { TableShape } from '../../../model/table.ts';
import { ownColumns } from '../../own-columns.ts';
import type { ViewChange } from '../../view-dialect.ts';
import type { ColumnComment } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { type Database, transact } from '../connection/transact.ts';

/**
 * Updates the comments of tables, their columns and changed views, unless a user has replaced them. It only writes those
 * that differ: there may be hundreds of columns.
 */
export async function updateComments(
  database: Database,
  described: readonly ColumnComment[],
  tables: readonly TableShape[],
  views: readonly ViewChange[],
): Promise<void> {
  const ofOwnColumns = tables.flatMap((table) =>
    ownColumns(table).map(({ name, comment }) => ({ table: table.name, column: name, base: comment, comment })),
  );
  const comments: ColumnComment[] = [...described, ...ofOwnColumns];
  const ofViews = views
    .filter(({ isChanged }) => isChanged)
    .flatMap(({ name: view, description, columns }) => [
      { view, column: null, comment: description },
      ...columns.map((column) => ({ view, column: column.name, comment: column.description ?? '' })),
    ]);
  if (comments.length + ofViews.length === 0) return;
  const values = [
    comments.map(({ table }) => table),
    comments.map(({ column }) => column),
    comments.map(({ base }) => base),
    comments.map(({ comment }) => comment),
    ofViews.map(({ view }) => view),
    ofViews.map(({ column }) => column),
    ofViews.map(({ comment }) => comment),
  ];
  const update = async ({ execute }: Session): Promise<void> => {
    const { rows } = await execute<{ statement: string }>(OUTDATED_COMMENTS, values);
    if (rows.length > 0) await execute(rows.map(({ statement }) => statement).join(';'));
  };
  await transact(database, update, { mayRepeat: true });
}

/** A table's comment may have a suffix after the profile's text. */
const OUTDATED_COMMENTS = `
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
