import { escapeIdentifier as quoted } from 'pg';
import type { Kysely } from 'kysely';
import { ownColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { TableStaging, TableSwap, TableRemoval } from '../../warehouse.ts';
import { hideOwnTables } from '../connection/schema-rights.ts';
import type { Session } from '../connection/session.ts';
import { causeCode, transact, type Database } from '../connection/transact.ts';
import { attachViews, clearedNames, emptiedViews, viewPlan } from '../views/attach-views.ts';
import { changeComments, claimStep, ownComments } from './grow-tables.ts';
import { createDeletedIndex, createTable, nameBehind } from './ddl.ts';
import { exclusively, type ExclusiveStep } from './alter-tables.ts';
import { ConfigError, SyncError } from '../../../model/errors.ts';

/** Something else depends on it, or cannot stand on what takes its place: a column or its type is gone. */
const IN_USE = new Set(['2BP01', '42703', '42883']);

/** Makes empty tables under other names, by the statements that make them under their own. */
export async function stageTables(database: Database, own: Kysely<OwnTables>, staging: TableStaging): Promise<void> {
  const { lease, shape, names, references } = staging;
  await transact(
    database,
    async (session) => {
      const { execute } = session;
      for (const table of shape.tables) {
        const staged = names.get(table.name) ?? table.name;
        await execute(`DROP TABLE IF EXISTS ${quoted(staged)}`);
        const keys = table.columns.filter(({ name }) => references.has(`${table.name}.${name}`));
        const collated = new Set(keys.map(({ name }) => `${staged}.${name}`));
        await execute(createTable(own, { ...table, name: staged }, collated).sql);
        if (table.path.length === 0) await execute(createDeletedIndex(own, { ...table, name: staged }).sql);
      }
      // Whom the default privileges let read would see the rows without the limits of the tables that are read now.
      await hideOwnTables(session, database.schema);
    },
    { lease, mayRepeat: true },
  );
}

/** Puts them in the place of others, with the rights, limits and comments that these had. */
export async function swapTables(database: Database, swap: TableSwap): Promise<void> {
  try {
    await exclusively(database, swap.lease, (step) => swapIn(step, swap));
  } catch (error) {
    throw IN_USE.has(causeCode(error)) ? tableInUse(error) : error;
  }
  await changeComments(database, [...swap.comments, ...ownComments(swap.shape.tables)], swap.views);
}

async function swapIn({ session, lock }: ExclusiveStep, swap: TableSwap): Promise<void> {
  const { shape, names, dropped, standing, views, statements, claim } = swap;
  const { execute } = session;
  await session.runAll([claimStep(claim), ...clearedNames(views)]);
  await refuseLostLimits(session, dropped, PUBLICATIONS);
  const belongings = await belongingsOf(session, swap);
  const ours = new Set([...standing.keys(), ...views.map(({ name }) => name)]);
  const { options } = await viewPlan(session, views, []);
  await lock(dropped, await emptiedViews(session, [...ours], dropped));
  for (const statement of await keysTo(session, dropped)) await execute(statement);
  await execute(`DROP TABLE ${dropped.map(quoted).join(', ')}`);
  for (const [name, staged] of names) {
    await execute(`ALTER TABLE ${quoted(staged)} RENAME TO ${quoted(name)}`);
    const [was, is] = [nameBehind('_sync_key_', staged), nameBehind('_sync_key_', name)];
    await execute(`ALTER TABLE ${quoted(name)} RENAME CONSTRAINT ${quoted(was)} TO ${quoted(is)}`);
  }
  const [root] = shape.tables;
  const index = nameBehind('_sync_deleted_', names.get(root?.name ?? '') ?? '');
  if (root !== undefined)
    await execute(`ALTER INDEX ${quoted(index)} RENAME TO ${quoted(nameBehind('_sync_deleted_', root.name))}`);
  await session.runAll(statements.map(({ sql: text, parameters: values }) => ({ text, values })));
  // All of them: those that were taken off the tables read as before.
  const detached = new Map(views.map(({ name }) => [name, '']));
  for (const made of attachViews({ views, retyped: [], detached, options }, new Map())) await execute(made);
  for (const statement of belongings) await execute(statement);
}

interface Belonging extends Record<string, unknown> {
  table: string;
  /** Null for one of the whole table. */
  column: string | null;
  statement: string;
}

/** The statements that give the tables again what belongs to those that go: rights, limits, comments, triggers and indexes of others. */
async function belongingsOf({ execute }: Session, { shape, dropped }: TableSwap): Promise<string[]> {
  const added = shape.tables.map(({ name }) => name).filter((name) => !dropped.includes(name));
  const { rows } = await execute<Belonging>(BELONGINGS, [dropped, added]);
  const tables = new Map(shape.tables.map((table) => [table.name, table]));
  const isThere = ({ table: name, column }: Belonging): boolean => {
    const table = tables.get(name);
    if (table === undefined || column === null) return table !== undefined;
    const own = ownColumns(table).map((each) => each.name);
    return [...table.key, ...own, ...table.columns.map((each) => each.name)].includes(column);
  };
  return rows.filter(isThere).map(({ statement }) => statement);
}

const BELONGINGS = `
  WITH old AS (
    SELECT c.oid, relname, relowner, relacl, relrowsecurity, relforcerowsecurity FROM pg_class c
    WHERE c.oid = ANY(ARRAY(SELECT to_regclass(pg_catalog.quote_ident(name)) FROM pg_catalog.unnest($1::text[]) AS name))
  ), who AS (SELECT 0::oid AS oid, 'PUBLIC' AS name UNION ALL SELECT oid, pg_catalog.quote_ident(rolname) FROM pg_roles)
  SELECT relname AS "table", NULL AS "column", pg_catalog.format('GRANT %s ON %I TO %s', privilege_type, relname, who.name)
      || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS "statement"
    FROM old, aclexplode(relacl) JOIN who ON who.oid = grantee WHERE grantee <> relowner
  UNION ALL
  SELECT relname, attname, pg_catalog.format('GRANT %s (%I) ON %I TO %s', privilege_type, attname, relname, who.name)
    FROM old JOIN pg_attribute ON attrelid = old.oid AND attacl IS NOT NULL AND NOT attisdropped,
      aclexplode(attacl) JOIN who ON who.oid = grantee WHERE grantee <> relowner
  UNION ALL
  SELECT added, NULL, pg_catalog.format('GRANT %s ON %I TO %s', privilege_type, added, who.name)
    FROM pg_catalog.unnest($2::text[]) AS added, pg_default_acl, aclexplode(defaclacl) JOIN who ON who.oid = grantee
    WHERE defaclobjtype = 'r' AND defaclnamespace IN (0, current_schema()::regnamespace)
      AND defaclrole = current_user::regrole AND grantee <> defaclrole
  UNION ALL
  SELECT relname, NULL, pg_catalog.format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', relname) FROM old WHERE relrowsecurity
  UNION ALL
  SELECT relname, NULL, pg_catalog.format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', relname) FROM old WHERE relforcerowsecurity
  UNION ALL
  SELECT relname, NULL, pg_catalog.format('CREATE POLICY %I ON %I AS %s FOR %s TO %s', policyname, relname, permissive, cmd,
      (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(role), ', ') FROM pg_catalog.unnest(roles) AS role))
      || coalesce(' USING (' || qual || ')', '') || coalesce(' WITH CHECK (' || with_check || ')', '')
    FROM old JOIN pg_policies ON tablename = relname AND schemaname = current_schema()
  UNION ALL
  SELECT relname, NULL, pg_get_triggerdef(t.oid)
      || CASE tgenabled WHEN 'O' THEN '' ELSE pg_catalog.format('; ALTER TABLE %I %s TRIGGER %I', relname,
        CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE REPLICA' END, tgname) END
    FROM old JOIN pg_trigger AS t ON tgrelid = old.oid AND NOT tgisinternal
  UNION ALL
  SELECT relname, NULL, pg_catalog.format('COMMENT ON TABLE %I IS %L', relname, obj_description(oid, 'pg_class'))
    FROM old WHERE obj_description(oid, 'pg_class') IS NOT NULL
  UNION ALL
  SELECT relname, attname, pg_catalog.format('COMMENT ON COLUMN %I.%I IS %L', relname, attname, col_description(old.oid, attnum))
    FROM old JOIN pg_attribute ON attrelid = old.oid AND attnum > 0 AND NOT attisdropped
    WHERE col_description(old.oid, attnum) IS NOT NULL
  UNION ALL
  SELECT old.relname, NULL, pg_get_indexdef(indexrelid)
    FROM old JOIN pg_index ON indrelid = old.oid JOIN pg_class AS i ON i.oid = indexrelid
    WHERE NOT pg_catalog.starts_with(i.relname, '_sync_')`;

/** SQLSTATE of a table that something else depends on. */
const DEPENDED_ON = '2BP01';

/** Drops tables and keeps the views of ours that stand on them, empty, unless that lifts a limit for readers. Throws `ConfigError('table_in_use')` and `SyncError`. */
export async function dropTables(database: Database, removal: TableRemoval): Promise<void> {
  const { lease, tables, views, statements } = removal;
  try {
    await transact(
      database,
      async (session) => {
        await refuseLostLimits(session, tables, LIMITS);
        for (const statement of await emptiedViews(session, [...views.keys()], tables))
          await session.execute(statement);
        for (const statement of await keysTo(session, tables)) await session.execute(statement);
        if (tables.length > 0) await session.execute(`DROP TABLE IF EXISTS ${tables.map(quoted).join(', ')}`);
        for (const { sql, parameters } of statements) await session.execute(sql, parameters);
      },
      { lease },
    );
  } catch (error) {
    throw causeCode(error) === DEPENDED_ON ? tableInUse(error) : error;
  }
}

/** Takes keys of ours off that lead to the tables: they come back with them. */
async function keysTo({ execute }: Session, tables: readonly string[]): Promise<string[]> {
  const { rows } = await execute<{ statement: string }>(
    `SELECT pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS statement FROM pg_constraint
      WHERE contype = 'f' AND pg_catalog.starts_with(conname, '_sync_')
        AND confrelid = ANY(ARRAY(SELECT to_regclass(pg_catalog.quote_ident(name)) FROM pg_catalog.unnest($1::text[]) AS name))`,
    [tables],
  );
  return rows.map(({ statement }) => statement);
}

/** Membership in a publication: only the owner of a publication may add a table. */
const PUBLICATIONS = `
  SELECT pg_catalog.format('publication %I', pubname) AS what, relname FROM old
    JOIN pg_publication_rel AS published ON prrelid = old.oid JOIN pg_publication AS p ON p.oid = prpubid`;

/** Limits that an administrator set on a table. The last: the default privileges would give a role more. */
const LIMITS = `${PUBLICATIONS}
  UNION ALL SELECT 'row level security', relname FROM old WHERE relrowsecurity
  UNION ALL SELECT pg_catalog.format('policy %I', polname), relname FROM old JOIN pg_policy ON polrelid = old.oid
  UNION ALL SELECT pg_catalog.format('trigger %I', tgname), relname FROM old JOIN pg_trigger ON tgrelid = old.oid AND NOT tgisinternal
  UNION ALL SELECT pg_catalog.format('rights on column %I', attname), relname
    FROM old JOIN pg_attribute ON attrelid = old.oid AND attacl IS NOT NULL AND NOT attisdropped
  UNION ALL SELECT pg_catalog.format('revoked rights of %s', coalesce(pg_catalog.quote_ident(rolname), 'PUBLIC')), relname
    FROM old, pg_default_acl AS usual, aclexplode(defaclacl) AS later LEFT JOIN pg_roles AS r ON r.oid = grantee
    WHERE defaclobjtype = 'r' AND defaclrole = relowner AND defaclnamespace IN (0, relnamespace)
      AND grantee <> relowner AND privilege_type = 'SELECT' AND NOT EXISTS (SELECT FROM aclexplode(relacl) AS given
        WHERE given.grantee = later.grantee AND given.privilege_type = 'SELECT')`;

/** Throws `ConfigError('table_in_use')` if a table that is made again would do without some of the `limits`. */
async function refuseLostLimits({ execute }: Session, tables: readonly string[], limits: string): Promise<void> {
  const { rows } = await execute<{ what: string; name: string }>(
    `WITH old AS (SELECT * FROM pg_class WHERE oid = ANY(
        ARRAY(SELECT to_regclass(pg_catalog.quote_ident(name)) FROM pg_catalog.unnest($1::text[]) AS name)))
      SELECT DISTINCT what, pg_catalog.quote_ident(relname) AS name FROM (${limits}) AS found ORDER BY name, what`,
    [tables],
  );
  if (rows.length === 0) return;
  const names = rows.map(({ what, name }) => `${what} of ${name}`).join(', ');
  throw new ConfigError('table_in_use', `a table is to be made again, which would end ${names}`, {
    hint: 'take the right to read the schema from readers, drop it, run the same command again, and set it again; `content-sync rebuild` keeps all but publications',
  });
}

/** For what stands on the tables themselves. */
function tableInUse(error: unknown): ConfigError {
  const cause = error instanceof SyncError ? error.cause : error;
  const said = cause instanceof Error && 'detail' in cause && typeof cause.detail === 'string' ? cause.detail : null;
  const detail = cause instanceof Error ? ` (${said ?? cause.message})` : '';
  return new ConfigError('table_in_use', `a table is to be made again, and objects of others depend on it${detail}`, {
    hint: 'drop it, run the same command again, and make it again on the views of the copy, such as content_live, which stay',
    cause,
  });
}
