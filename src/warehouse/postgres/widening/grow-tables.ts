import { sql, type CompiledQuery, type Kysely } from 'kysely';
import { ConfigError } from '../../../model/errors.ts';
import { grownColumns, OWN_COLUMNS } from '../../own-columns.ts';
import type { TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import { growthOutdated, type DroppedView, type ShapeGrowth } from '../../warehouse.ts';
import { refuseStrangers, refuseWithoutCreate } from '../connection/schema-rights.ts';
import type { Answer, Step } from '../connection/batch.ts';
import type { Session } from '../connection/session.ts';
import { execute as asking, transact, type Database } from '../connection/transact.ts';
import { clearedNames } from '../views/attach-views.ts';
import { changeComments } from './change-comments.ts';
import { addColumns, createDeletedIndex, createTable } from './ddl.ts';
import { alterTables } from './alter-tables.ts';
import { wideningsOf } from './widening.ts';

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
      const tail = fresh.length === 0 ? [] : [commentsStep(fresh.map(({ name }) => name))];
      // First of all the claim: it holds up those who are planning another change, until this one is there.
      const steps = [
        ...(claim === null ? [] : [claimStep(claim)]),
        ...clearedNames(views),
        ...made,
        ...statements.map(asStep),
        ...tail,
      ];
      const answers = await session.runAll(steps);
      if (tail.length > 0) await comment(session, answers.at(-1)?.rows ?? []);
    },
  });
  // Not while readers wait. If this is cut off, the next column brings the comments of all.
  await changeComments(database, growth.comments ?? [], views);
  return dropped;
}

/** Gives tables that an earlier version made the columns of ours that they lack. */
export async function growOwnColumns(database: Database, own: Kysely<OwnTables>): Promise<void> {
  const { schema } = database;
  const grown = grownColumns();
  const { rows } = await sql<{ table: string; name: string }>`
    SELECT DISTINCT "table_name" AS "table", "grown"."name"
    FROM ${sql.id(schema, '_sync_columns')} CROSS JOIN pg_catalog.unnest(${grown.map(({ name }) => name)}::text[]) AS "grown" ("name")
    JOIN pg_class ON relname = "table_name" AND relkind = 'r'
      AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = ${schema})
    WHERE "table_path" = '[]' AND NOT EXISTS (
      SELECT 1 FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = "grown"."name" AND NOT attisdropped)`.execute(
    own,
  );
  if (rows.length === 0) return;
  const missing = Map.groupBy(rows, ({ table }) => table);
  const grow = async (session: Session): Promise<void> => {
    for (const [table, lacking] of missing) {
      const columns = grown.filter((column) => lacking.some(({ name }) => name === column.name));
      await execute(session, addColumns(own, table, columns, new Set()));
    }
    await writeComments(session, [...missing.keys()]);
  };
  await transact(database, grow, { mayRepeat: true });
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

async function execute(session: Session, query: CompiledQuery): Promise<void> {
  await session.execute(query.sql, query.parameters);
}

/**
 * Comments new tables and columns with what the catalog says of them, for people who choose among them. What somebody has
 * written over it stays.
 */
export async function writeComments(session: Session, tables: readonly string[]): Promise<void> {
  const [answer] = await session.runAll([commentsStep(tables)]);
  await comment(session, answer?.rows ?? []);
}

/** Its answer are the statements that are missing. */
function commentsStep(tables: readonly string[]): Step {
  return {
    text: COMMENTS,
    values: [tables, OWN_COLUMNS.map(({ name }) => name), OWN_COLUMNS.map(({ comment: text }) => text)],
  };
}

async function comment({ execute: run }: Session, rows: Answer['rows']): Promise<void> {
  if (rows.length > 0) await run(rows.map(({ statement }) => String(statement)).join(';'));
}

const COMMENTS = `
  WITH said AS (
    SELECT table_name, column_name, comment FROM _sync_columns WHERE table_name = ANY($1) AND comment IS NOT NULL
    UNION ALL
    SELECT table_name, own.* FROM pg_catalog.unnest($1::text[]) AS table_name, unnest($2::text[], $3::text[]) AS own
  )
  SELECT pg_catalog.format('COMMENT ON COLUMN %I.%I IS %L', table_name, attname, comment) AS statement
  FROM said JOIN pg_attribute ON attrelid = to_regclass(pg_catalog.quote_ident(table_name)) AND attname = column_name
  WHERE NOT attisdropped AND col_description(attrelid, attnum) IS NULL
  UNION ALL
  SELECT DISTINCT pg_catalog.format('COMMENT ON TABLE %I IS %L', table_name, CASE table_path
    WHEN '[]' THEN pg_catalog.format('The %s records of the service, one a row.', resource)
    ELSE pg_catalog.format('Lists within the %s records of the service, one element a row.', resource) END)
  FROM _sync_columns
  WHERE table_name = ANY($1) AND obj_description(to_regclass(pg_catalog.quote_ident(table_name)), 'pg_class') IS NULL`;
