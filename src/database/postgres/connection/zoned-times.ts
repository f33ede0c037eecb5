import { sql, type Kysely } from 'kysely';
import { ConfigError, messageOf } from '../../../model/errors.ts';

/** A view that stands on a table of ours, and what it reads. */
interface StandingView {
  /** Quoted. */
  name: string;
  kind: string;
  query: string;
  columns: readonly { name: string; type: string }[];
}

/** To find out which types the columns of a view will have. */
const TRIAL = '"_sync_trial"';

/**
 * Gives all times of our own tables in the schema a zone, which is UTC. The session must be in UTC: then no row is
 * written anew. Views of others on these tables stay as they are, with the types that they have. Inside the caller's
 * transaction. Throws `ConfigError` (`column_in_use`) if one of them cannot.
 */
export async function zoneTimes(db: Kysely<unknown>): Promise<void> {
  const columns = await sql<{ table: string; name: string }>`SELECT relname AS "table", attname AS "name" FROM pg_class
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND pg_catalog.starts_with(relname, '_sync_')
      AND atttypid = 'timestamp'::regtype ORDER BY attrelid, attnum`.execute(db);
  const tables = [...Map.groupBy(columns.rows, ({ table }) => table)];
  const views = await viewsOn(
    db,
    tables.map(([table]) => table),
  );
  for (const view of views) await replace(db, view, nothingOf(view));
  for (const [table, times] of tables) {
    const changes = times.map(({ name }) => sql`ALTER ${sql.id(name)} TYPE timestamptz`);
    await sql`ALTER TABLE ${sql.id(table)} ${sql.join(changes)}`.execute(db);
  }
  for (const view of views) await restore(db, view);
}

async function viewsOn(db: Kysely<unknown>, tables: readonly string[]): Promise<StandingView[]> {
  const { rows } = await sql<Omit<StandingView, 'columns'> & { columns: string }>`
    SELECT pg_catalog.format('%I.%I', nspname, relname) AS name, relkind AS kind,
      rtrim(pg_get_viewdef(pg_class.oid), ';') AS query,
      (SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', attname, 'type', format_type(atttypid, atttypmod)) ORDER BY attnum)::text
        FROM pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0) AS columns
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pg_class.oid IN (SELECT ev_class FROM pg_rewrite
      JOIN pg_depend ON objid = pg_rewrite.oid AND classid = 'pg_rewrite'::regclass
      WHERE refclassid = 'pg_class'::regclass AND ev_class <> refobjid
        AND refobjid = ANY (SELECT to_regclass(pg_catalog.quote_ident(own)) FROM pg_catalog.unnest(${tables}::text[]) AS own))`.execute(
    db,
  );
  return rows.map(({ name, kind, query, columns }) => {
    // The catalog says it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    return { name, kind, query, columns: JSON.parse(columns) as StandingView['columns'] };
  });
}

async function replace(db: Kysely<unknown>, { name, kind }: StandingView, query: string): Promise<void> {
  if (kind !== 'v') throw inUse(name, `it is no view that could be made anew in its place`);
  await sql.raw(`CREATE OR REPLACE VIEW ${name} AS ${query}`).execute(db);
}

function nothingOf({ columns }: StandingView): string {
  return `SELECT ${columns.map(({ name, type }) => `NULL::${type} AS ${quoted(name)}`).join(', ')} WHERE false`;
}

/** What came without a zone goes on without one, and the other way round. */
async function restore(db: Kysely<unknown>, view: StandingView): Promise<void> {
  const { name, query, columns } = view;
  try {
    await sql.raw(`CREATE TEMPORARY VIEW ${TRIAL} AS ${query}`).execute(db);
    const { rows } = await sql<{ type: string }>`SELECT format_type(atttypid, atttypmod) AS type FROM pg_attribute
      WHERE attrelid = ${TRIAL}::regclass AND attnum > 0 ORDER BY attnum`.execute(db);
    await sql.raw(`DROP VIEW ${TRIAL}`).execute(db);
    const isSame = columns.every(({ type }, at) => rows[at]?.type === type);
    const list = columns.map(({ name: column, type }, at) => {
      const id = quoted(column);
      return rows[at]?.type === type ? id : `(${id} AT TIME ZONE 'UTC') AS ${id}`;
    });
    await replace(db, view, isSame ? query : `SELECT ${list.join(', ')} FROM (${query}) AS _sync_as_before`);
  } catch (error) {
    throw inUse(name, messageOf(error), error);
  }
}

function inUse(view: string, why: string, cause?: unknown): ConfigError {
  return new ConfigError('column_in_use', `times of our own tables get a zone, and ${view} stands on them: ${why}`, {
    hint: 'drop it, run the same command again, and make it again: times of our own tables are timestamptz from now on',
    cause,
  });
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
