// Postgres neither alters nor drops a column that a view names. Before a column widens (`price` from bigint to numeric), the
// views on it are dropped, and afterwards created again as they were. This file finds them, with the statements that create
// them again, and refuses a change that would lose an object of another owner.
import { z } from 'zod';
import type { ExecuteSql } from '../../database.ts';
import type { ViewChange } from '../../view-dialect.ts';
import { TableInUseError, type UsedColumn, type UsedView } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';

/** What a change of tables requires of the views. */
export interface ViewPlan {
  views: readonly ViewChange[];
  /** Names of managed views with new types. They are dropped and created again, with all views that depend on them. */
  retyped: readonly string[];
  /**
   * Managed views with the same types as before. For each, the statement that replaces its query by one without rows, so
   * that it no longer depends on the columns; views that depend on it stay.
   */
  detached: ReadonlyMap<string, string>;
  /** Options of the existing views (`WITH (...)`): an administrator may have set `security_invoker`. */
  options: ReadonlyMap<string, string>;
}

export interface TableColumns {
  table: string;
  columns: readonly string[];
}

/** Returns the parameters of `USED_COLUMNS`: two lists of the same length. */
export function columnPairs(uses: readonly TableColumns[]): [tables: string[], columns: string[]] {
  const pairs = uses.flatMap(({ table, columns }) => columns.map((column) => [table, column] as const));
  return [pairs.map(([table]) => table), pairs.map(([, column]) => column)];
}

/** The columns `$2` of the tables `$1`, with their ids in the catalog of Postgres. */
const USED_COLUMNS = `ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS used(table_name, column_name)
  JOIN pg_attribute ON attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(used.table_name)) AND attname = used.column_name`;

/** A view that depends on columns, directly or through other views, with the statements that create it again. */
export interface Dependent {
  /** The quoted name, with the schema if it is another one. */
  name: string;
  /** The name of a managed view without quotes; null for an external view. */
  view: string | null;
  kind: 'VIEW' | 'MATERIALIZED VIEW';
  owner: string;
  /** True if our role may create it again as its owner. */
  ours: boolean;
  /** The first statement creates the view. */
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
 * Finds the views that depend on the columns, and the retyped views with all views that depend on them. A view comes after
 * those on which it depends.
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

/** Throws `TableInUseError` for views that our role could not create again as their owner. */
export function refuseOthersViews(dependents: readonly Dependent[]): void {
  const others = dependents.filter(({ ours }) => !ours);
  if (others.length > 0) throw inUseError(others);
}

/** Throws `TableInUseError` if a function or a column uses the row type of a view that would have to be dropped. */
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
 * An SQL array of the statements that create a view of `facts` again, with its rules, triggers, comments, owner, indexes,
 * rows and rights. A materialized view is created without data, because its query must run with the rights of its owner.
 * Functions are called with their schema, because other roles may create functions of the same name in our schema.
 */
const CREATION = `
  pg_catalog.format('CREATE %s %s%s AS %s%s', kind, name,
    ' WITH (' || pg_catalog.array_to_string(reloptions, ', ') || ')',
    pg_catalog.rtrim(pg_catalog.pg_get_viewdef(oid), ';'),
    CASE WHEN relkind = 'm' THEN ' WITH NO DATA' END)
  || ARRAY(SELECT pg_catalog.pg_get_ruledef(r.oid) FROM pg_rewrite r
      WHERE ev_class = facts.oid AND rulename <> '_RETURN')
  || ARRAY(SELECT pg_catalog.pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE tgrelid = facts.oid AND NOT tgisinternal)
  || ARRAY(SELECT pg_catalog.format('COMMENT ON %s %s IS %L', kind, name, comment)
      FROM pg_catalog.obj_description(oid, 'pg_class') AS comment WHERE comment IS NOT NULL)
  || ARRAY(SELECT pg_catalog.format('COMMENT ON COLUMN %s.%I IS %L', name, attname,
        pg_catalog.col_description(facts.oid, attnum))
      FROM pg_attribute WHERE attrelid = facts.oid AND pg_catalog.col_description(facts.oid, attnum) IS NOT NULL)
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
          WHERE attrelid = facts.oid) AS granted)`;

/**
 * `changed`: the changed columns. `found`: all views on them or on retyped views, with how deep they are nested, and the
 * column or view on which they depend. `facts`: each of these views once.
 */
const DEPENDENTS = `
  WITH RECURSIVE changed AS (
    SELECT attrelid, attnum, table_name, column_name FROM ${USED_COLUMNS}
  ), found AS (
    SELECT ev_class AS oid, 1 AS depth, table_name, column_name, NULL::text AS view_name
    FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
    JOIN changed ON refobjid = attrelid AND refobjsubid = attnum
    WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass AND ev_class <> refobjid
      AND ev_class <> ALL(ARRAY(SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(detached)) FROM pg_catalog.unnest($4::text[] || $5::text[]) AS detached))
    UNION
    SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(retyped))::oid, 1, NULL, NULL, retyped
    FROM pg_catalog.unnest($4::text[]) AS retyped
    UNION
    SELECT ev_class, depth + 1, table_name, column_name, view_name FROM found s JOIN LATERAL (
      SELECT objid FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = s.oid AND classid = 'pg_rewrite'::regclass
      UNION ALL
      SELECT objid FROM pg_class c JOIN pg_proc p ON prorettype = reltype
      JOIN pg_depend ON refclassid = 'pg_proc'::regclass AND refobjid = p.oid AND classid = 'pg_rewrite'::regclass
      WHERE c.oid = s.oid
    ) AS d ON true JOIN pg_rewrite r ON r.oid = d.objid WHERE ev_class <> s.oid
  ), facts AS (
    SELECT c.oid, relkind, reloptions, relispopulated, relacl, c.oid::regclass::text AS name,
      CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS kind, origins,
      pg_catalog.pg_get_userbyid(relowner) AS owner, pg_catalog.pg_has_role(relowner, 'MEMBER') AS ours, deepest
    FROM (SELECT oid, pg_catalog.max(depth) AS deepest, pg_catalog.jsonb_agg(DISTINCT pg_catalog.jsonb_build_object(
        'table', table_name, 'column', column_name, 'view', view_name))::json AS origins
      FROM found GROUP BY oid) AS s
    JOIN pg_class c ON c.oid = s.oid
    WHERE relkind IN ('v', 'm')
  )
  SELECT name, kind, owner, ours, origins, (SELECT ours.name FROM pg_catalog.unnest($3::text[]) AS ours(name)
    WHERE pg_catalog.to_regclass(pg_catalog.quote_ident(ours.name)) = oid) AS view, ${CREATION} AS statements FROM facts ORDER BY deepest, name`;
