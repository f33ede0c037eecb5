import { ConfigError } from '../../../model/errors.ts';
import type { Session } from '../connection/session.ts';
import type { ViewPlan } from '../views/attach-views.ts';
import type { Widening } from './widening.ts';

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
}

/** Columns of one table. */
export interface TableColumns {
  table: string;
  columns: readonly string[];
}

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
  const { rows } = await execute<Dependent & Record<string, unknown>>(DEPENDENTS, [
    pairs.map(([table]) => table),
    pairs.map(([, column]) => column),
    views.map(({ name }) => name),
    retyped,
    [...detached.keys()],
  ]);
  return rows;
}

/** Throws if a view would not be its owner's any more if we made it again. */
export function refuseOthersViews(dependents: readonly Dependent[], uses: readonly TableColumns[]): void {
  const others = dependents.filter(({ ours }) => !ours);
  if (others.length === 0) return;
  const names = others.map(({ name, owner }) => `${name} (of ${owner})`).join(', ');
  const grants = [...new Set(others.map(({ owner }) => `GRANT "${owner}" TO CURRENT_USER`))].join('; ');
  throw new ConfigError('column_in_use', `${columnsText(uses)} must widen, and views of others stand on it: ${names}`, {
    hint: `drop them, run the same command again and make them again; or let content-sync do it (as an administrator): ${grants}`,
  });
}

/** `content.a, content.b` */
export function columnsText(uses: readonly TableColumns[]): string {
  return uses.flatMap(({ table, columns }) => columns.map((column) => `${table}.${column}`)).join(', ');
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
    SELECT attrelid, attnum FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS used(table_name, column_name)
    JOIN pg_attribute ON attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(table_name))
      AND attname = column_name
  ), stands AS (
    SELECT ev_class AS oid, 1 AS depth FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
    JOIN named ON refobjid = attrelid AND refobjsubid = attnum
    WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass AND ev_class <> refobjid
      AND ev_class <> ALL(ARRAY(SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(detached)) FROM unnest($5::text[]) AS detached))
    UNION
    SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(retyped))::oid, 1 FROM unnest($4::text[]) AS retyped
    UNION
    SELECT ev_class, depth + 1 FROM stands s JOIN LATERAL (
      SELECT objid FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = s.oid AND classid = 'pg_rewrite'::regclass
      UNION ALL
      SELECT objid FROM pg_class c JOIN pg_proc p ON prorettype = reltype
      JOIN pg_depend ON refclassid = 'pg_proc'::regclass AND refobjid = p.oid AND classid = 'pg_rewrite'::regclass
      WHERE c.oid = s.oid
    ) AS d ON true JOIN pg_rewrite r ON r.oid = d.objid WHERE ev_class <> s.oid
  ), seen AS (
    SELECT c.oid, relkind, reloptions, relispopulated, relacl, c.oid::regclass::text AS name,
      CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS kind,
      pg_catalog.pg_get_userbyid(relowner) AS owner, pg_catalog.pg_has_role(relowner, 'MEMBER') AS ours, deepest
    FROM (SELECT oid, pg_catalog.max(depth) AS deepest FROM stands GROUP BY oid) AS s JOIN pg_class c ON c.oid = s.oid
    WHERE relkind IN ('v', 'm')
  )
  SELECT name, kind, owner, ours, (SELECT ours.name FROM unnest($3::text[]) AS ours(name)
    WHERE pg_catalog.to_regclass(pg_catalog.quote_ident(ours.name)) = oid) AS view, ${REMADE} AS statements FROM seen ORDER BY deepest, name`;

/**
 * Throws if a constraint, a default or statistics that people made stand on a column: they would silently go with
 * one that gives its place to another, and may mean something else for one of another type.
 */
export async function refuseLosses({ execute }: Session, { table, columns }: Widening): Promise<void> {
  const { rows } = await execute<{ what: string }>(
    `SELECT DISTINCT pg_describe_object(classid, objid, objsubid) AS what FROM pg_depend
     JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = pg_catalog.to_regclass(pg_catalog.quote_ident($1)) AND attname = ANY($2)
       AND deptype = 'a' AND classid <> 'pg_class'::regclass
       AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE classid = 'pg_constraint'::regclass AND pg_constraint.oid = objid
         AND starts_with(conname, '_sync_'))`,
    [table.name, columns.map(({ column }) => column.name)],
  );
  if (rows.length === 0) return;
  const names = rows.map(({ what }) => what).join(', ');
  throw new ConfigError('column_in_use', `columns of ${table.name} must widen, and this stands on them: ${names}`, {
    hint: 'drop it, run the same command again, and make it again to fit the wider type',
  });
}
