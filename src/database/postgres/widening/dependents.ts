import { z } from 'zod';
import { InUse, type UsedColumn, type UsedView } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import type { TableColumns, ViewPlan } from '../views/attach-views.ts';

/** A view that stands on columns, directly or by way of other views, and what makes it again as it was. */
export interface Dependent {
  /** Quoted, with its schema if that is not ours. */
  name: string;
  /** The bare name of a view that is ours; null for all others. */
  view: string | null;
  kind: 'VIEW' | 'MATERIALIZED VIEW';
  owner: string;
  /** True if we may give it back to its owner. */
  ours: boolean;
  statements: string[];
  /** The columns, or the views of ours that are dropped, on which it stands. */
  origins: Origin[];
}

type Origin = z.output<typeof originSchema>;

const originSchema = z.object({
  table: z.string().nullable(),
  column: z.string().nullable(),
  view: z.string().nullable(),
});

/**
 * The views that stand on the columns, and those of ours that are to be dropped with what stands on them: those that others stand on first. Postgres neither alters nor drops a column
 * that one of them names. People who read the warehouse make such things.
 */
export async function dependentsOf(
  { execute }: Session,
  uses: readonly TableColumns[],
  { views, retyped, detached }: ViewPlan,
): Promise<Dependent[]> {
  const pairs = uses.flatMap(({ table, columns }) => columns.map((column) => [table, column] as const));
  // As with every growth by new columns alone.
  if (pairs.length + retyped.length === 0) return [];
  const { rows } = await execute<DependentRow>(DEPENDENTS, [
    pairs.map(([table]) => table),
    pairs.map(([, column]) => column),
    views.map(({ name }) => name),
    retyped,
    [...detached.keys()],
  ]);
  return rows.map(({ name, view, kind, owner, ours, statements, origins }) => {
    return { name, view, kind, owner, ours, statements, origins: z.array(originSchema).parse(JSON.parse(origins)) };
  });
}

interface DependentRow extends Record<string, unknown>, Omit<Dependent, 'origins'> {
  /** JSON. */
  origins: string;
}

/** Throws `InUse` if a view would not be its owner's any more if we made it again. */
export function refuseOthersViews(dependents: readonly Dependent[]): void {
  const others = dependents.filter(({ ours }) => !ours);
  if (others.length > 0) throw inUse(others);
}

/**
 * Throws `InUse` if a function, or a column of a table, has the row type of a view of ours that is to be dropped: these are
 * not made again.
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
  if (rows.length > 0) throw new InUse([], rows);
}

/** What the views keep from changing. */
export function inUse(dependents: readonly Dependent[], cause?: unknown): InUse {
  const columns: UsedColumn[] = [];
  const views: UsedView[] = [];
  for (const { kind, name, owner, origins } of dependents) {
    const by = `${kind.toLowerCase()} ${name} (of ${owner})`;
    for (const { table, column, view } of origins) {
      if (view !== null) views.push({ view, by });
      else if (table !== null && column !== null) columns.push({ table, column, by });
    }
  }
  return new InUse(columns, views, cause);
}

/**
 * What makes it again: the view, what belongs to it, its owner, what it holds and who may read it. Postgres runs what is
 * in a materialised view, and in the expressions of its indexes, with the rights of its owner once it has one,
 * and of its maker before: so it is made empty. Functions are named with their schema: others may make some of
 * the same name in ours.
 */
const REMADE = `
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

const DEPENDENTS = `
  WITH RECURSIVE named AS (
    SELECT attrelid, attnum, table_name, column_name
    FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS used(table_name, column_name)
    JOIN pg_attribute ON attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(table_name))
      AND attname = column_name
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
    WHERE pg_catalog.to_regclass(pg_catalog.quote_ident(ours.name)) = oid) AS view, ${REMADE} AS statements FROM seen ORDER BY deepest, name`;

/**
 * Throws `InUse` if a constraint, a default, statistics, a generated column, a policy or the like that people made
 * depends on a column: it may mean something else for one of another type. Views are made again, and indexes built again.
 */
export async function refuseLosses({ execute }: Session, { table, columns }: TableColumns): Promise<void> {
  const { rows } = await execute<{ by: string; column: string }>(
    `SELECT DISTINCT attname AS column, pg_describe_object(classid, objid, objsubid) AS by FROM pg_depend
     JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = pg_catalog.to_regclass(pg_catalog.quote_ident($1)) AND attname = ANY($2)
       AND classid <> 'pg_rewrite'::regclass
       AND NOT (classid = 'pg_class'::regclass AND objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = refobjid))
       AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE classid = 'pg_constraint'::regclass AND pg_constraint.oid = objid
         AND pg_catalog.starts_with(conname, '_sync_'))`,
    [table, columns],
  );
  if (rows.length === 0) return;
  throw new InUse(
    rows.map(({ by, column }) => ({ table, column, by })),
    [],
  );
}
