import { escapeIdentifier as quoted, escapeLiteral } from 'pg';
import { z } from 'zod';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { ViewChange } from '../../view-dialect.ts';
import type { Step, Session } from '../connection/session.ts';
import { grantViews } from '../connection/schema-rights.ts';
import { VIEW_DIALECT } from './dialect.ts';

/** What a change of tables does to views of ours. */
export interface ViewPlan {
  views: readonly ViewChange[];
  /** Names of those that are to show another type and so must be dropped: what stands on them is made again. */
  retyped: readonly string[];
  /** Those that stand on columns which change, each with what takes it off them: all that stands on it stays. */
  detached: ReadonlyMap<string, string>;
  /** `WITH (...)` of the views that stand: an administrator may have set `security_invoker`. */
  options: ReadonlyMap<string, string>;
}

/** Columns of one table. */
export interface TableColumns {
  table: string;
  columns: readonly string[];
}

/**
 * Views of ours, in their order, around a change of the tables that they stand on. `isCollated` if columns of theirs get
 * another collation, which no view that stands can follow.
 */
export async function viewPlan(
  { execute }: Session,
  views: readonly ViewChange[],
  uses: readonly TableColumns[],
  isCollated = false,
): Promise<ViewPlan> {
  if (views.length === 0) return { views, retyped: [], detached: new Map(), options: new Map() };
  const pairs = uses.flatMap(({ table, columns }) => columns.map((column) => [table, column] as const));
  const { rows } = await execute<StandingRow & { is_used: boolean }>(standingViews(USES_COLUMNS), [
    views.map(({ name }) => name),
    pairs.map(([table]) => table),
    pairs.map(([, column]) => column),
  ]);
  const wanted = new Map(views.map((view) => [view.name, view]));
  const standing = rows.map(standingView);
  const used = new Set(rows.filter(({ is_used }) => is_used).map(({ name }) => name));
  const retyped = standing.filter(
    ({ name, columns }) =>
      (isCollated && (used.has(name) || wanted.get(name)?.isChanged)) ||
      !isExtended(columns, wanted.get(name)?.columns ?? []),
  );
  const names = retyped.map(({ name }) => name);
  const detached = standing.filter(({ name }) => used.has(name) && !names.includes(name));
  return {
    views,
    retyped: names,
    detached: new Map(detached.map((view) => [view.name, emptied(view)])),
    options: new Map(standing.map(({ name, options }) => [name, options])),
  };
}

/** The statements that take those of the views off the tables that stand on one of them: they keep their columns. */
export async function emptiedViews(
  { execute }: Session,
  views: readonly string[],
  tables: readonly string[],
): Promise<string[]> {
  const { rows } = await execute<StandingRow & { is_used: boolean }>(standingViews(USES_TABLES), [views, tables]);
  return rows.flatMap((row) => (row.is_used ? [emptied(standingView(row))] : []));
}

/** The steps that take views away from the names that tables need, with all that people built on them. */
export function clearedNames(views: readonly ViewChange[]): Step[] {
  return views.flatMap(({ name, former }) => {
    if (former === undefined) return [];
    // What stands under the name may be a table by now.
    const rename = `BEGIN IF EXISTS (SELECT FROM pg_class WHERE relkind = 'v' AND relname = ${escapeLiteral(former)}
      AND relnamespace = current_schema()::regnamespace)
      THEN ALTER VIEW ${quoted(former)} RENAME TO ${quoted(name)}; END IF; END`;
    return [{ text: `DO ${escapeLiteral(rename)}` }];
  });
}

/**
 * The statements that make the views which are new, are to read otherwise, or were taken off their tables. `dropped` are
 * those that were dropped, with what else belongs to them: grants and the like.
 */
export function attachViews(
  { views, detached, options }: ViewPlan,
  dropped: ReadonlyMap<string, readonly string[]>,
): string[] {
  const made = views.filter(({ name, isChanged }) => !dropped.has(name) && (isChanged || detached.has(name)));
  const statements = views.flatMap((view) => {
    const { name, query } = view;
    const belongs = dropped.get(name);
    const head = `VIEW ${quoted(name)}${options.get(name) ?? ''} AS ${query}`;
    if (belongs !== undefined) {
      return [`CREATE ${head}`, ...asOf(view), ...belongs.filter((each) => isOn(view, each))];
    }
    return made.includes(view) ? [`CREATE OR REPLACE ${head}`, ...asOf(view)] : [];
  });
  return made.length === 0 ? statements : [...statements, grantViews(made.map(({ name }) => name))];
}

const ON_A_COLUMN =
  /^(?:COMMENT ON COLUMN (?:(?:"(?:[^"]|"")*"|[^".\s]+)\.)+|GRANT \w+\()(?:"((?:[^"]|"")*)"|([^"\s)]+))(?: IS |\) ON )/;

/** False for a comment or a right on a column that the view no longer has: the database was set back since. */
function isOn({ columns }: ViewChange, statement: string): boolean {
  const [, inQuotes, bare] = ON_A_COLUMN.exec(statement) ?? [];
  const column = inQuotes?.replaceAll('""', '"') ?? bare;
  return column === undefined || columns.some(({ name }) => name === column);
}

/**
 * Its rows of a moment. The server writes a plain query as this into the one that calls it, so that columns which nobody
 * asks for cost nothing; it gains columns with the view. Called by people with a search path of their own.
 */
function asOf({ name, asOf: called }: ViewChange): string[] {
  if (called === undefined) return [];
  const body = `SELECT h.* FROM %1$I.%2$I AS h WHERE h.valid_from <= $1 AND (h.valid_to IS NULL OR h.valid_to > $1) AND NOT h.is_deleted`;
  const made = `CREATE OR REPLACE FUNCTION %1$I.%3$I(moment timestamptz) RETURNS SETOF %1$I.%2$I LANGUAGE sql STABLE AS %4$L`;
  return [
    `DO $do$ BEGIN EXECUTE pg_catalog.format(${escapeLiteral(made)}, current_schema(), ${escapeLiteral(name)}, ${escapeLiteral(called)}, pg_catalog.format(${escapeLiteral(body)}, current_schema(), ${escapeLiteral(name)})); END $do$`,
  ];
}

/**
 * The statements that drop views, outer ones first, and the functions of those that are ours. Views that are not ours
 * to drop go with the ones that they depend on, if that is wanted.
 */
export function dropViews(
  { views }: ViewPlan,
  dependents: readonly { name: string; kind: string; view: string | null; ours: boolean }[],
  dropsOthers = false,
): string[] {
  const functions = new Map(views.map(({ name, asOf: called }) => [name, called]));
  return dependents.toReversed().flatMap(({ name, kind, view, ours }) => {
    if (dropsOthers && !ours) return [];
    const called = functions.get(view ?? '');
    const drop = `DROP ${kind} ${name}${dropsOthers ? ' CASCADE' : ''}`;
    return called === undefined
      ? [drop]
      : [`DROP FUNCTION IF EXISTS ${quoted(called)}(timestamptz)${dropsOthers ? ' CASCADE' : ''}`, drop];
  });
}

interface StandingView {
  name: string;
  options: string;
  columns: readonly z.output<typeof standingColumn>[];
}

interface StandingRow extends Record<string, unknown> {
  name: string;
  /** `WITH (...)`, or empty. */
  options: string;
  /** JSON. */
  columns: string;
}

function standingView({ name, options, columns }: StandingRow): StandingView {
  return { name, options, columns: z.array(standingColumn).parse(JSON.parse(columns)) };
}

const standingColumn = z.object({ name: z.string(), type: z.string(), collation: z.string().nullable() });

/** True if the view that stands can get these columns without being dropped: Postgres only adds some at the end. */
function isExtended(
  standing: StandingView['columns'],
  columns: readonly { name: string; type: ColumnType }[],
): boolean {
  return standing.every(({ name, type }, at) => {
    const column = columns[at];
    return column?.name === name && VIEW_DIALECT.types[column.type] === type;
  });
}

function emptied({ name, options, columns }: StandingView): string {
  const list = columns.map(
    (column) =>
      `NULL::${column.type}${column.collation === null ? '' : ` COLLATE ${column.collation}`} AS ${quoted(column.name)}`,
  );
  return `CREATE OR REPLACE VIEW ${quoted(name)}${options} AS SELECT ${list.join(', ')} WHERE false`;
}

/** Those of the views `$1` that are there, and whether `isUsed`, an expression over `ev_class`, holds for each. */
function standingViews(isUsed: string): string {
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

/** It stands on one of the columns `$3` of the tables `$2`. */
const USES_COLUMNS = `EXISTS (SELECT FROM pg_attribute AS used
  JOIN ROWS FROM (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[])) AS changed(table_name, column_name)
    ON used.attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(table_name)) AND used.attname = column_name
  WHERE used.attrelid = refobjid AND used.attnum = refobjsubid)`;

/** It stands on one of the tables `$2`. */
const USES_TABLES = `refobjid = ANY(ARRAY(SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(used))
  FROM pg_catalog.unnest($2::text[]) AS used))`;
