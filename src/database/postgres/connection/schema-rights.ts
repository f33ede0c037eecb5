import { escapeIdentifier, escapeLiteral } from 'pg';
import { ConfigError } from '../../../model/errors.ts';
import type { ExecuteSql, Readers, ReadersRequest } from '../../database.ts';
import { onlyRow, type Session } from './session.ts';
import type { Database } from './transact.ts';

type Schema = Pick<Database, 'schema' | 'shown'>;

interface RightsFacts {
  role: string;
  database: string;
  is_there: boolean;
  /** To make a schema in the database, and tables in the schema. */
  may_make_schema: boolean;
  may_make_tables: boolean;
}

/** Throws `ConfigError` if the role may not make the schema, or tables in it; with the GRANT that is missing. */
export async function refuseWithoutCreate(ask: ExecuteSql, { schema, shown }: Schema): Promise<void> {
  const facts = onlyRow(await ask<RightsFacts>(RIGHTS, [schema]));
  const { is_there, may_make_schema, may_make_tables } = facts;
  if (is_there ? may_make_tables : may_make_schema) return;
  const [database, place, role] = [facts.database, schema, facts.role].map((name) => escapeIdentifier(name));
  const [what, grant] = is_there
    ? [`make tables in the schema ${schema}`, `GRANT USAGE, CREATE ON SCHEMA ${place} TO ${role}`]
    : [`make the schema ${schema}`, `GRANT CREATE ON DATABASE ${database} TO ${role}`];
  throw new ConfigError('warehouse_refused', `${shown}: the role "${facts.role}" may not ${what}`, {
    hint: `have the owner or an administrator run: ${grant}; then run the same command again`,
  });
}

/**
 * Throws `ConfigError` if an object of a role that could not act for us or for the database's owner anyway would run
 * with our rights (functions that take any type are called with their schema, because another role may make one of an
 * exact type later; Postgres itself does so for `unnest` of several arrays): one in the schema that has the name of a function or an operator of Postgres, because our statements
 * look for tables there, or a trigger on what we write. The owner of the schema could put such objects there at any time.
 */
export async function refuseStrangers(ask: ExecuteSql, { schema, shown }: Schema): Promise<void> {
  const { rows } = await ask<{ what: string; owner: string; remedy: string }>(STRANGERS, [schema]);
  if (rows.length === 0) return;
  const names = rows.map(({ what, owner }) => `${what} (of ${owner})`).join(', ');
  throw new ConfigError(
    'schema_unsafe',
    `${shown}: what belongs to other roles could run with the rights of content-sync: ${names}`,
    {
      hint: `find out why it is there; then run: ${rows.map(({ remedy }) => remedy).join('; ')}; and let nobody else make things there: REVOKE CREATE ON SCHEMA ${escapeIdentifier(schema)} FROM ...`,
    },
  );
}

const RIGHTS = `SELECT current_user::text AS role, pg_catalog.current_database()::text AS database,
    n.oid IS NOT NULL AS is_there,
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS may_make_schema,
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false)
      AS may_make_tables
  FROM (SELECT $1::text::name AS name) AS asked LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = asked.name`;

/**
 * What `refuseStrangers` refuses. A stranger is neither a superuser nor our role, nor the database's owner or the role
 * whose only member that is.
 */
const STRANGERS = `
  WITH place AS (SELECT oid, nspname, nspowner FROM pg_catalog.pg_namespace WHERE nspname = $1::text::name),
  strangers AS (
    SELECT r.oid, r.rolname FROM pg_catalog.pg_roles AS r, pg_catalog.pg_database AS d
    WHERE d.datname = pg_catalog.current_database() AND NOT r.rolsuper
      AND r.rolname NOT IN (current_user, 'pg_database_owner') AND r.oid <> d.datdba
  ), found AS (
    SELECT 'the schema itself' AS what, nspowner AS owner, 'ALTER SCHEMA ' || pg_catalog.quote_ident(nspname)
      || ' OWNER TO ' || pg_catalog.quote_ident(current_user) AS remedy FROM place
    UNION ALL
    SELECT p.oid::regprocedure::text AS what, p.proowner AS owner, 'DROP ROUTINE ' || p.oid::regprocedure::text AS remedy
    FROM pg_catalog.pg_proc AS p JOIN place ON p.pronamespace = place.oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_proc AS own
      WHERE own.pronamespace = 'pg_catalog'::regnamespace AND own.proname = p.proname)
    UNION ALL
    SELECT o.oid::regoperator::text, o.oprowner, 'DROP OPERATOR ' || o.oid::regoperator::text
    FROM pg_catalog.pg_operator AS o JOIN place ON o.oprnamespace = place.oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_operator AS own
      WHERE own.oprnamespace = 'pg_catalog'::regnamespace AND own.oprname = o.oprname)
    UNION ALL
    SELECT 'trigger ' || pg_catalog.quote_ident(t.tgname) || ' on ' || c.oid::regclass::text, p.proowner,
      'DROP TRIGGER ' || pg_catalog.quote_ident(t.tgname) || ' ON ' || c.oid::regclass::text
    FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
    JOIN place ON c.relnamespace = place.oid JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
    WHERE NOT t.tgisinternal AND c.relkind IN ('r', 'p')
  )
  SELECT what, rolname::text AS owner, remedy FROM found JOIN strangers ON strangers.oid = found.owner ORDER BY what`;

/**
 * Takes tables of ours from the roles that may read what comes to be in the schema, in the transaction that makes them.
 * Those that a person has granted to other roles stay so.
 */
export async function hideOwnTables({ execute }: Session, schema: string): Promise<void> {
  const { rows } = await execute<{ name: string; role: string }>(
    `SELECT relation.relname AS name, coalesce(pg_catalog.quote_ident(reader.rolname), 'PUBLIC') AS role
      FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS given
      LEFT JOIN pg_roles AS reader ON reader.oid = given.grantee
      WHERE relation.relnamespace = $1::regnamespace AND pg_catalog.starts_with(relation.relname, '_sync_')
        AND relation.relkind = 'r' AND given.grantee <> relation.relowner AND given.grantee IN (
          SELECT later.grantee FROM pg_default_acl AS usual CROSS JOIN LATERAL aclexplode(usual.defaclacl) AS later
          WHERE usual.defaclnamespace IN (0, $1::regnamespace) AND usual.defaclobjtype = 'r')`,
    [escapeIdentifier(schema)],
  );
  for (const { name, role } of rows) {
    await execute(`REVOKE ALL ON ${escapeIdentifier(schema)}.${escapeIdentifier(name)} FROM ${role}`);
  }
}

/** Lets a role read a source's tables and views, or its views alone. Throws `ConfigError` if it may not. */
export async function grantReading(
  session: Session,
  schema: string,
  { role, viewsOnly }: Pick<ReadersRequest, 'role' | 'viewsOnly'>,
): Promise<Readers> {
  const isNew = await makeRole(session, role);
  const { own, tables, views, others } = await relationsOf(session, schema);
  const [inSchema, to] = [escapeIdentifier(schema), escapeIdentifier(role)];
  const [hidden, readable] = viewsOnly ? [[...own, ...tables], views] : [own, [...tables, ...views].toSorted()];
  await session.execute(`GRANT USAGE ON SCHEMA ${inSchema} TO ${to}`);
  if (hidden.length > 0) await session.execute(`REVOKE ALL ON ${listOf(schema, hidden)} FROM ${to}`);
  if (readable.length > 0) await session.execute(`GRANT SELECT ON ${listOf(schema, readable)} TO ${to}`);
  // For later: tables of our own are taken out again by `hideOwnTables`, views are granted by `grantViews`.
  const [tablesLater, typesLater] = viewsOnly ? ['REVOKE ALL', 'GRANT USAGE'] : ['GRANT SELECT', 'REVOKE ALL'];
  await session.execute(`${laterIn(schema)} ${tablesLater} ON TABLES ${viewsOnly ? 'FROM' : 'TO'} ${to}`);
  await session.execute(`${laterIn(schema)} ${typesLater} ON TYPES ${viewsOnly ? 'TO' : 'FROM'} ${to}`);
  return { schema, isNew, readable, others };
}

function laterIn(schema: string): string {
  return `ALTER DEFAULT PRIVILEGES IN SCHEMA ${escapeIdentifier(schema)}`;
}

/**
 * The statement that lets the roles read new views that may read views and no tables. Postgres has one default for both;
 * these roles are marked by a default right on types, of which the schema has none.
 */
export function grantViews(views: readonly string[]): string {
  const list = views.map((name) => escapeIdentifier(name)).join(', ');
  return `DO $do$ DECLARE reader text; BEGIN
    FOR reader IN SELECT rolname FROM pg_catalog.pg_default_acl CROSS JOIN LATERAL pg_catalog.aclexplode(defaclacl) AS later
      JOIN pg_catalog.pg_roles ON pg_roles.oid = later.grantee
      WHERE defaclnamespace = current_schema()::regnamespace AND defaclobjtype = 'T'
    LOOP EXECUTE pg_catalog.format('GRANT SELECT ON %s TO %I', ${escapeLiteral(list)}, reader); END LOOP; END $do$`;
}

/** Takes these rights away. Throws `ConfigError` if there is no such role. */
export async function revokeReading(session: Session, schema: string, role: string): Promise<Readers> {
  const facts = await factsOf(session, role);
  if (!facts.is_there) {
    throw new ConfigError('role_missing', `there is no role "${role}"`, { hint: 'nothing is left to be revoked' });
  }
  const { own, tables, views, others } = await relationsOf(session, schema);
  const readable = [...tables, ...views].toSorted();
  const [inSchema, from] = [escapeIdentifier(schema), escapeIdentifier(role)];
  for (const kind of ['TABLES', 'TYPES'])
    await session.execute(`${laterIn(schema)} REVOKE ALL ON ${kind} FROM ${from}`);
  const all = [...own, ...readable];
  if (all.length > 0) await session.execute(`REVOKE ALL ON ${listOf(schema, all)} FROM ${from}`);
  await session.execute(`REVOKE ALL ON SCHEMA ${inSchema} FROM ${from}`);
  return { schema, isNew: false, readable, others };
}

/** Returns true if it was made just now. Throws `ConfigError` if it is not one that only reads, or may not be made. */
async function makeRole(session: Session, role: string): Promise<boolean> {
  const { is_there, is_writer, may_make } = await factsOf(session, role);
  if (is_writer) {
    throw new ConfigError('role_writes', `the role "${role}" may do all that content-sync may, and not only read`, {
      hint: 'name another role with --role: one that is missing is made',
    });
  }
  if (is_there) return false;
  const statement = `CREATE ROLE ${escapeIdentifier(role)} NOLOGIN`;
  if (!may_make) {
    throw new ConfigError('role_missing', `there is no role "${role}", and content-sync may not make one`, {
      hint: `have an administrator run: ${statement}; then run the same command again`,
    });
  }
  await session.execute(statement);
  return true;
}

interface RoleFacts {
  is_there: boolean;
  /** It is a superuser, our own role, or a member of that. */
  is_writer: boolean;
  may_make: boolean;
}

async function factsOf({ execute }: Session, role: string): Promise<RoleFacts> {
  const facts = await execute<RoleFacts>(
    `SELECT role.oid IS NOT NULL AS is_there,
        coalesce(pg_has_role(role.oid, me.oid, 'MEMBER'), false) AS is_writer,
        me.rolsuper OR me.rolcreaterole AS may_make
      FROM pg_roles AS me LEFT JOIN pg_roles AS role ON role.rolname = $1 WHERE me.rolname = current_user`,
    [role],
  );
  return onlyRow(facts);
}

/** Tables and views of a schema: those of ours alone, tables and views to be read, and those that are not ours to give. */
async function relationsOf({ execute }: Session, schema: string) {
  const { rows } = await execute<{ name: string; is_own: boolean; is_ours: boolean; is_view: boolean }>(
    `SELECT relname AS name, pg_catalog.starts_with(relname, '_sync_') AS is_own, pg_has_role(relowner, 'USAGE') AS is_ours,
        relkind = 'v' AS is_view
      FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname`,
    [escapeIdentifier(schema)],
  );
  const names = (which: (row: (typeof rows)[number]) => boolean): string[] =>
    rows.filter(which).map(({ name }) => name);
  return {
    own: names((row) => row.is_ours && row.is_own),
    tables: names((row) => row.is_ours && !row.is_own && !row.is_view),
    views: names((row) => row.is_ours && !row.is_own && row.is_view),
    others: names((row) => !row.is_ours),
  };
}

function listOf(schema: string, names: readonly string[]): string {
  return names.map((name) => `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`).join(', ');
}
