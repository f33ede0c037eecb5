import type { CompiledQuery, Kysely } from 'kysely';
import { ConfigError } from '../../../model/errors.ts';
import { ownColumns } from '../../own-columns.ts';
import type { TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import { growthOutdated, type DroppedView, type ShapeGrowth } from '../../warehouse.ts';
import { refuseStrangers, refuseWithoutCreate } from '../connection/schema-rights.ts';
import type { Session, Step } from '../connection/session.ts';
import { execute as asking, transact, type Database } from '../connection/transact.ts';
import { clearedNames } from '../views/attach-views.ts';
import { addColumns, createDeletedIndex, createTable, wideningsOf } from './ddl.ts';
import { alterTables } from './alter-tables.ts';
import type { ViewChange } from '../../view-dialect.ts';

/**
 * Makes new tables, adds and widens columns of existing ones, and runs the growth's statements, in one transaction under
 * the lease. Throws `ConfigError` (`table_exists`, `column_in_use`, `warehouse_refused`, `schema_unsafe`) and `SyncError`.
 */
export async function growTables(
  database: Database,
  own: Kysely<OwnTables>,
  growth: ShapeGrowth,
): Promise<readonly DroppedView[]> {
  const { before, after, changes, views, statements, lease, claim, references = new Set<string>() } = growth;
  const known = new Set(before?.tables.map((table) => table.name));
  const fresh = after.tables.filter(({ name }) => !known.has(name));
  const added = changes.filter(({ table, from }) => known.has(table) && from === null);
  const altered = [...Map.groupBy(added, ({ table }) => table)];
  const additions = altered.map(([table, more]) => {
    const columns = more.map(({ column }) => column);
    return addColumns(own, table, columns, references).sql;
  });
  const widenings = wideningsOf(growth);
  const ask = asking(database);
  // New columns alone need no more than the table.
  if (fresh.length + widenings.length > 0) await refuseWithoutCreate(ask, database);
  // With it, statements and whole views that stand there are read and run again.
  if (widenings.length > 0) await refuseStrangers(ask, database);
  const dropped = await alterTables(database, lease, {
    widenings,
    tables: altered.map(([table]) => table),
    additions,
    views,
    dropsOthers: growth.dropsOthers ?? false,
    prepare: async (session) => {
      const made = fresh.flatMap((table) => madeTable(own, database.schema, table, references));
      // First of all the claim: it holds up those who are planning another change, until this one is there.
      const steps = [
        ...(claim === null ? [] : [claimStep(claim)]),
        ...clearedNames(views),
        ...made,
        ...statements.map(asStep),
      ];
      await session.runAll(steps);
    },
  });
  // Not while readers wait. If this is cut off, the next column brings the comments of all.
  await changeComments(database, [...(growth.comments ?? []), ...ownComments(after.tables)], views);
  return dropped;
}

/** A table with its index. One that somebody else made under this name is never written to. */
function madeTable(own: Kysely<OwnTables>, schema: string, table: TableShape, references: ReadonlySet<string>): Step[] {
  const { name, path } = table;
  const isThere = {
    text: 'SELECT 1 FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relname = $2',
    values: [schema, name],
    refuse: () => foreignTable(name),
  };
  const index = path.length === 0 ? [createDeletedIndex(own, table)] : [];
  return [isThere, ...[createTable(own, table, references), ...index].map(asStep)];
}

function foreignTable(name: string): ConfigError {
  return new ConfigError('table_exists', `the warehouse has a table or view "${name}" that content-sync did not make`, {
    hint: 'rename it, or point `warehouse` at a database or schema of its own',
  });
}

/** Throws what has it planned again if there was another growth since. */
export function claimStep(claim: CompiledQuery): Step {
  return { ...asStep(claim), ifNone: growthOutdated };
}

function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}

/** What columns of ours say of themselves. */
export function ownComments(tables: readonly TableShape[]): NonNullable<ShapeGrowth['comments']> {
  return tables.flatMap((table) =>
    ownColumns(table).map(({ name, comment }) => ({ table: table.name, column: name, base: comment, comment })),
  );
}

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
  const change = async ({ execute }: Session): Promise<void> => {
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
