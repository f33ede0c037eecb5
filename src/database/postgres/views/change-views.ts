// The statements that change managed views when their tables change, because Postgres changes no column that a view selects.
// A view whose types change is dropped and created again. A view whose types stay is only emptied meanwhile, as in
// `CREATE OR REPLACE VIEW ... AS SELECT NULL::bigint AS price WHERE false`, so that external views on it stay.
import { escapeIdentifier as quoted, escapeLiteral } from 'pg';
import { z } from 'zod';
import type { ViewChange } from '../../view-dialect.ts';
import type { Session, Step } from '../connection/session.ts';
import { columnPairs, type Dependent, type TableColumns, type ViewPlan } from '../widening/dependents.ts';
import { VIEW_DIALECT } from './dialect.ts';

/**
 * Plans which managed views are dropped, and which are emptied, while the columns `uses` change. If the collation of a column
 * changes (`isCollated`), the views on it are dropped.
 */
export async function planViewChanges(
  { execute }: Session,
  views: readonly ViewChange[],
  uses: readonly TableColumns[],
  isCollated = false,
): Promise<ViewPlan> {
  const { rows } = await execute<ExistingRow>(existingViews(USES_COLUMNS), [
    views.map(({ name }) => name),
    ...columnPairs(uses),
  ]);
  const wanted = new Map(views.map((view) => [view.name, view]));
  const existing = rows.map(readExisting);
  const retyped = existing.filter(({ name, columns, isUsed }) => {
    const view = wanted.get(name);
    const changesCollation = isCollated && (isUsed || view?.isChanged === true);
    return changesCollation || !canBeReplaced(columns, view?.columns ?? []);
  });
  const detached = existing.filter((view) => view.isUsed && !retyped.includes(view));
  return {
    views,
    retyped: retyped.map(({ name }) => name),
    detached: new Map(detached.map((view) => [view.name, emptyView(view)])),
    options: new Map(existing.map(({ name, options }) => [name, options])),
  };
}

/** Returns the statements that empty the views that depend on one of the tables. */
export async function emptyViews(
  { execute }: Session,
  views: readonly string[],
  tables: readonly string[],
): Promise<string[]> {
  const { rows } = await execute<ExistingRow>(existingViews(USES_TABLES), [views, tables]);
  return rows.flatMap((row) => (row.is_used ? [emptyView(readExisting(row))] : []));
}

/** Returns the steps that rename views whose former names tables need now. */
export function renameFormerViews(views: readonly ViewChange[]): Step[] {
  return views.flatMap(({ name, former }) => {
    if (former === undefined) return [];
    // A table may have the name by now.
    const rename = `BEGIN IF EXISTS (SELECT FROM pg_class WHERE relkind = 'v' AND relname = ${escapeLiteral(former)}
      AND relnamespace = current_schema()::regnamespace)
      THEN ALTER VIEW ${quoted(former)} RENAME TO ${quoted(name)}; END IF; END`;
    return [{ text: `DO ${escapeLiteral(rename)}` }];
  });
}

/**
 * Returns the statements that create views: those that are new or changed, or were dropped or emptied. `dropped` has for each
 * dropped view the statements that restore its rights and comments.
 */
export function createViews(
  { views, detached, options }: ViewPlan,
  dropped: ReadonlyMap<string, readonly string[]>,
): string[] {
  return views.flatMap((view) => {
    const { name, query } = view;
    const rightsAndComments = dropped.get(name);
    const definition = `VIEW ${quoted(name)}${options.get(name) ?? ''} AS ${query}`;
    if (rightsAndComments !== undefined) {
      const applicable = rightsAndComments.filter((statement) => hasItsColumn(view, statement));
      return [`CREATE ${definition}`, ...createAsOf(view), ...applicable];
    }
    if (!view.isChanged && !detached.has(name)) return [];
    return [`CREATE OR REPLACE ${definition}`, ...createAsOf(view)];
  });
}

/** Matches a comment or a right on a column; captures the name of the column, with or without quotes. */
const ON_A_COLUMN =
  /^(?:COMMENT ON COLUMN (?:(?:"(?:[^"]|"")*"|[^".\s]+)\.)+|GRANT \w+\()(?:"((?:[^"]|"")*)"|([^"\s)]+))(?: IS |\) ON )/;

/** Returns false for a statement about a column that the view no longer has, because the database was rolled back. */
function hasItsColumn({ columns }: ViewChange, statement: string): boolean {
  const [, inQuotes, bare] = ON_A_COLUMN.exec(statement) ?? [];
  const column = inQuotes?.replaceAll('""', '"') ?? bare;
  return column === undefined || columns.some(({ name }) => name === column);
}

/**
 * Creates the function that returns the view's rows at a time (`asOf`). It is one plain query, which the server inlines, so
 * that unselected columns cost nothing. Names include the schema, because callers have search paths of their own.
 */
function createAsOf({ name, asOf }: ViewChange): string[] {
  if (asOf === undefined) return [];
  const body = `SELECT h.* FROM %1$I.%2$I AS h WHERE h.valid_from <= $1 AND (h.valid_to IS NULL OR h.valid_to > $1) AND NOT h.is_deleted`;
  const create = `CREATE OR REPLACE FUNCTION %1$I.%3$I(moment timestamptz) RETURNS SETOF %1$I.%2$I LANGUAGE sql STABLE AS %4$L`;
  return [
    `DO $do$ BEGIN EXECUTE pg_catalog.format(${escapeLiteral(create)}, current_schema(), ${escapeLiteral(name)}, ${escapeLiteral(asOf)}, pg_catalog.format(${escapeLiteral(body)}, current_schema(), ${escapeLiteral(name)})); END $do$`,
  ];
}

/**
 * Returns the statements that drop views and the functions of managed ones, outer views first. With `dropsOthers`, CASCADE
 * also drops the views that our role may not drop by themselves.
 */
export function dropViews({ views }: ViewPlan, dependents: readonly Dependent[], dropsOthers: boolean): string[] {
  const functions = new Map(views.map(({ name, asOf }) => [name, asOf]));
  const cascade = dropsOthers ? ' CASCADE' : '';
  return dependents.toReversed().flatMap(({ name, kind, view, ours }) => {
    if (dropsOthers && !ours) return [];
    const asOf = functions.get(view ?? '');
    const drop = `DROP ${kind} ${name}${cascade}`;
    return asOf === undefined ? [drop] : [`DROP FUNCTION IF EXISTS ${quoted(asOf)}(timestamptz)${cascade}`, drop];
  });
}

interface ExistingRow extends Record<string, unknown> {
  name: string;
  /** `WITH (...)`, or empty. */
  options: string;
  /** JSON. */
  columns: string;
  is_used: boolean;
}

interface ExistingView {
  name: string;
  options: string;
  columns: readonly z.output<typeof existingColumn>[];
  isUsed: boolean;
}

const existingColumn = z.object({ name: z.string(), type: z.string(), collation: z.string().nullable() });

function readExisting({ name, options, columns, is_used: isUsed }: ExistingRow): ExistingView {
  return { name, options, columns: z.array(existingColumn).parse(JSON.parse(columns)), isUsed };
}

/** True if Postgres can replace the existing view: only new columns at its end may be added. */
function canBeReplaced(existing: ExistingView['columns'], columns: ViewChange['columns']): boolean {
  return existing.every(({ name, type }, at) => {
    const column = columns[at];
    return column?.name === name && VIEW_DIALECT.types[column.type] === type;
  });
}

function emptyView({ name, options, columns }: ExistingView): string {
  const list = columns.map((column) => {
    const collation = column.collation === null ? '' : ` COLLATE ${column.collation}`;
    return `NULL::${column.type}${collation} AS ${quoted(column.name)}`;
  });
  return `CREATE OR REPLACE VIEW ${quoted(name)}${options} AS SELECT ${list.join(', ')} WHERE false`;
}

/** Selects those of the views `$1` that exist. `is_used` is true if a dependency of the view meets the condition `isUsed`. */
function existingViews(isUsed: string): string {
  return `SELECT relname AS name, coalesce(' WITH (' || pg_catalog.array_to_string(pg_class.reloptions, ', ') || ')', '') AS options,
      pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('name', attname, 'type', CASE atttypid WHEN 'timestamptz'::regtype THEN 'timestamptz'
        ELSE format_type(atttypid, atttypmod) END, 'collation', CASE WHEN attcollation NOT IN (0, typcollation)
        THEN attcollation::regcollation::text END) ORDER BY attnum)::json AS columns,
      EXISTS (SELECT FROM pg_rewrite JOIN pg_depend ON objid = pg_rewrite.oid AND classid = 'pg_rewrite'::regclass
        WHERE ev_class = pg_class.oid AND refclassid = 'pg_class'::regclass AND ${isUsed}) AS is_used
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 JOIN pg_type ON pg_type.oid = atttypid
    WHERE relkind = 'v' AND relname = ANY($1) AND relnamespace = current_schema()::regnamespace
    GROUP BY pg_class.oid, relname, pg_class.reloptions`;
}

/** The condition that the view depends on one of the columns `$3` of the tables `$2`. */
const USES_COLUMNS = `EXISTS (SELECT FROM pg_attribute AS used
  JOIN ROWS FROM (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[])) AS changed(table_name, column_name)
    ON used.attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(table_name)) AND used.attname = column_name
  WHERE used.attrelid = refobjid AND used.attnum = refobjsubid)`;

/** The condition that the view depends on one of the tables `$2`. */
const USES_TABLES = `refobjid = ANY(ARRAY(SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(used))
  FROM pg_catalog.unnest($2::text[]) AS used))`;
