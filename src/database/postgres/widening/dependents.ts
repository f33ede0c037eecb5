// Postgres neither alters nor drops a column that a view names. Before a column widens (`price` from bigint to numeric), the
// views on it are dropped, and afterwards created again as they were. This file finds them, with the statements that create
// them again, and refuses a change that would lose something which belongs to somebody else.
import { z } from 'zod';
import type { ExecuteSql } from '../../database.ts';
import type { ViewChange } from '../../view-dialect.ts';
import { TableInUseError, type UsedColumn, type UsedView } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';

/** What a change of tables means for the managed views. */
export interface ViewPlan {
  views: readonly ViewChange[];
  /** Names of the views whose types change: they are dropped, and created again with all that depends on them. */
  retyped: readonly string[];
  /**
   * Other views on changed columns, each with the statement that replaces its query by one without rows: it no longer
   * depends on the columns, and all that depends on the view stays.
   */
  detached: ReadonlyMap<string, string>;
  /** `WITH (...)` of the existing views: an administrator may have set `security_invoker`. */
  options: ReadonlyMap<string, string>;
}

export interface TableColumns {
  table: string;
  columns: readonly string[];
}

/** The parameters of `USED_COLUMNS`: as many names of tables as of columns. */
export function columnPairs(uses: readonly TableColumns[]): [tables: string[], columns: string[]] {
  const pairs = uses.flatMap(({ table, columns }) => columns.map((column) => [table, column] as const));
  return [pairs.map(([table]) => table), pairs.map(([, column]) => column)];
}

/** The columns `$2` of the tables `$1`, with the numbers by which the catalog of Postgres knows them. */
const USED_COLUMNS = `ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS used(table_name, column_name)
  JOIN pg_attribute ON attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(used.table_name)) AND attname = used.column_name`;

/** A view that depends on columns, directly or through other views, and how to create it again. */
export interface Dependent {
  /** Quoted, with its schema if that is another one. */
  name: string;
  /** The bare name of a managed view; null for an external one. */
  view: string | null;
  kind: 'VIEW' | 'MATERIALIZED VIEW';
  owner: string;
  /** True if our role may create it again as its owner. */
  ours: boolean;
  /** The first one creates the view. */
  statements: string[];
  /** The columns, or the dropped managed views, on which it depends. */
  origins: z.output<typeof originSchema>[];
}

const originSchema = z.object({
  table: z.string().nullable(),
  column: z.string().nullable(),
  view: z.string().nullable(),
});

/**
 * Finds the views that depend on the columns, and the retyped views with all that depends on them: first those on which
 * others depend.
 */
export async function findDependents(
  execute: ExecuteSql,
  uses: readonly TableColumns[],
  { views, retyped, detached }: ViewPlan,
): Promise<Dependent[]> {
  const [tables, columns] = columnPairs(uses);
  // New columns alone have no dependents.
  if (tables.length + retyped.length === 0) return [];
  const { rows } = await execute<Omit<Dependent, 'origins'> & { origins: string }>(DEPENDENTS, [
    tables,
    columns,
    views.map(({ name }) => name),
    retyped,
    [...detached.keys()],
  ]);
  return Array.from(rows, ({ origins, ...row }) => ({
    ...row,
    origins: z.array(originSchema).parse(JSON.parse(origins)),
  }));
}

/** Throws `TableInUseError` for views whose owner we could not restore. */
export function refuseOthersViews(dependents: readonly Dependent[]): void {
  const others = dependents.filter(({ ours }) => !ours);
  if (others.length > 0) throw inUseError(others);
}

/**
 * Throws `TableInUseError` if a function or a column has the row type of a view that is to be dropped: it is not
 * created again.
 */
export async function refuseRowTypes({ execute }: Session, { views, retyped }: ViewPlan): Promise<void> {
  if (retyped.length === 0) return;
  const { rows } = await execute<{ view: string; by: string }>(
    `SELECT DISTINCT c.relname AS view, pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) AS by
     FROM pg_class c JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = c.reltype
     WHERE c.oid = ANY(ARRAY(SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(name)) FROM pg_catalog.unnest($1::text[]) AS name))
       AND d.deptype = 'n' AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
       AND NOT EXISTS (SELECT 1 FROM pg_proc p WHERE p.oid = d.objid AND d.classid = 'pg_proc'::regclass
         AND p.proname = ANY($2) AND p.pronamespace = c.relnamespace)`,
    [retyped, views.flatMap(({ asOf }) => asOf ?? [])],
  );
  if (rows.length > 0) throw new TableInUseError([], rows);
}

/**
 * Throws `TableInUseError` if an external constraint, default, statistics, generated column or policy depends on a
 * column: it may mean something else for another type. Views are created again, and the server rebuilds indexes.
 */
export async function refuseLosses({ execute }: Session, uses: readonly TableColumns[]): Promise<void> {
  if (uses.length === 0) return;
  const { rows } = await execute<UsedColumn & Record<string, unknown>>(
    `SELECT DISTINCT used.table_name AS table, attname AS column, pg_describe_object(classid, objid, objsubid) AS by
     FROM ${USED_COLUMNS} JOIN pg_depend ON refobjid = attrelid AND refobjsubid = attnum
     WHERE refclassid = 'pg_class'::regclass AND classid <> 'pg_rewrite'::regclass
       AND NOT (classid = 'pg_class'::regclass AND objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = refobjid))`,
    columnPairs(uses),
  );
  if (rows.length > 0) throw new TableInUseError(rows, []);
}

/** The error that names the columns and views which cannot change because of the dependents. */
export function inUseError(dependents: readonly Dependent[], cause?: unknown): TableInUseError {
  const columns: UsedColumn[] = [];
  const views: UsedView[] = [];
  for (const { kind, name, owner, origins } of dependents) {
    const by = `${kind.toLowerCase()} ${name} (of ${owner})`;
    for (const { table, column, view } of origins) {
      if (view !== null) views.push({ view, by });
      else if (table !== null && column !== null) columns.push({ table, column, by });
    }
  }
  return new TableInUseError(columns, views, cause);
}

/**
 * An SQL array of the statements that create the view of a row of `seen`, with its rules, triggers, comments, owner,
 * indexes, rows and rights. A materialized view is created without data, because its query must run with the rights of its
 * owner. Functions are called with their schema, because other roles may create functions of the same name in ours.
 */
const CREATION = `
  pg_catalog.format('CREATE %s %s%s AS %s%s', kind, name,
    ' WITH (' || pg_catalog.array_to_string(reloptions, ', ') || ')',
    pg_catalog.rtrim(pg_catalog.pg_get_viewdef(oid), ';'),
    CASE WHEN relkind = 'm' THEN ' WITH NO DATA' END)
  || ARRAY(SELECT pg_catalog.pg_get_ruledef(r.oid) FROM pg_rewrite r
      WHERE ev_class = seen.oid AND rulename <> '_RETURN')
  || ARRAY(SELECT pg_catalog.pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE tgrelid = seen.oid AND NOT tgisinternal)
  || ARRAY(SELECT pg_catalog.format('COMMENT ON %s %s IS %L', kind, name, comment)
      FROM pg_catalog.obj_description(oid, 'pg_class') AS comment WHERE comment IS NOT NULL)
  || ARRAY(SELECT pg_catalog.format('COMMENT ON COLUMN %s.%I IS %L', name, attname,
        pg_catalog.col_description(seen.oid, attnum))
      FROM pg_attribute WHERE attrelid = seen.oid AND pg_catalog.col_description(seen.oid, attnum) IS NOT NULL)
  || ARRAY(SELECT pg_catalog.format('ALTER %s %s OWNER TO %I', kind, name, owner) WHERE owner <> current_user)
  || ARRAY(SELECT pg_catalog.pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = oid ORDER BY indexrelid)
  || ARRAY(SELECT pg_catalog.format('REFRESH MATERIALIZED VIEW %s', name) WHERE relkind = 'm' AND relispopulated)
  || ARRAY(SELECT pg_catalog.format('REVOKE ALL ON %s FROM PUBLIC, %I', name, owner) WHERE relacl IS NOT NULL)
  || ARRAY(SELECT pg_catalog.format('GRANT %s%s ON %s TO %s%s', privilege_type,
        '(' || pg_catalog.quote_ident(attname) || ')', name,
        CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee)) END,
        CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
      FROM (SELECT NULL::name AS attname, (pg_catalog.aclexplode(relacl)).*
        UNION ALL SELECT attname, (pg_catalog.aclexplode(attacl)).* FROM pg_attribute
          WHERE attrelid = seen.oid) AS granted)`;

/**
 * `named`: the changed columns. `stands`: all views on them or on retyped views, with how deep they are nested and which
 * column or view made them part of the result. `seen`: each of these views once, with its facts.
 */
const DEPENDENTS = `
  WITH RECURSIVE named AS (
    SELECT attrelid, attnum, table_name, column_name FROM ${USED_COLUMNS}
  ), stands AS (
    SELECT ev_class AS oid, 1 AS depth, table_name, column_name, NULL::text AS view_name
    FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
    JOIN named ON refobjid = attrelid AND refobjsubid = attnum
    WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass AND ev_class <> refobjid
      AND ev_class <> ALL(ARRAY(SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(detached)) FROM pg_catalog.unnest($4::text[] || $5::text[]) AS detached))
    UNION
    SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(retyped))::oid, 1, NULL, NULL, retyped
    FROM pg_catalog.unnest($4::text[]) AS retyped
    UNION
    SELECT ev_class, depth + 1, table_name, column_name, view_name FROM stands s JOIN LATERAL (
      SELECT objid FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = s.oid AND classid = 'pg_rewrite'::regclass
      UNION ALL
      SELECT objid FROM pg_class c JOIN pg_proc p ON prorettype = reltype
      JOIN pg_depend ON refclassid = 'pg_proc'::regclass AND refobjid = p.oid AND classid = 'pg_rewrite'::regclass
      WHERE c.oid = s.oid
    ) AS d ON true JOIN pg_rewrite r ON r.oid = d.objid WHERE ev_class <> s.oid
  ), seen AS (
    SELECT c.oid, relkind, reloptions, relispopulated, relacl, c.oid::regclass::text AS name,
      CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS kind, origins,
      pg_catalog.pg_get_userbyid(relowner) AS owner, pg_catalog.pg_has_role(relowner, 'MEMBER') AS ours, deepest
    FROM (SELECT oid, pg_catalog.max(depth) AS deepest, pg_catalog.jsonb_agg(DISTINCT pg_catalog.jsonb_build_object(
        'table', table_name, 'column', column_name, 'view', view_name))::json AS origins
      FROM stands GROUP BY oid) AS s
    JOIN pg_class c ON c.oid = s.oid
    WHERE relkind IN ('v', 'm')
  )
  SELECT name, kind, owner, ours, origins, (SELECT ours.name FROM pg_catalog.unnest($3::text[]) AS ours(name)
    WHERE pg_catalog.to_regclass(pg_catalog.quote_ident(ours.name)) = oid) AS view, ${CREATION} AS statements FROM seen ORDER BY deepest, name`;
