// Rights on a schema: missing grants, unsafe objects of other roles, and roles that may read the copy.
import { escapeIdentifier as quoted } from 'pg';
import { ConfigError } from '../../../model/errors.ts';
import type { ExecuteSql, Readers } from '../../database.ts';
import { onlyRow, type Session } from './session.ts';
import type { PostgresSchema } from './transact.ts';

interface RightsFacts {
  role: string;
  database: string;
  has_schema: boolean;
  may_create_schema: boolean;
  may_create_tables: boolean;
}

/** Throws `ConfigError` with the missing GRANT if the role may not create the schema, or tables in it. */
export async function refuseWithoutCreate(execute: ExecuteSql, { schema, shown }: PostgresSchema): Promise<void> {
  const facts = onlyRow(await execute<RightsFacts>(RIGHTS, [schema]));
  const { has_schema, may_create_schema, may_create_tables } = facts;
  if (has_schema ? may_create_tables : may_create_schema) return;
  const [database, quotedSchema, role] = [facts.database, schema, facts.role].map((name) => quoted(name));
  const [action, grant] = has_schema
    ? [`make tables in the schema ${schema}`, `GRANT USAGE, CREATE ON SCHEMA ${quotedSchema} TO ${role}`]
    : [`make the schema ${schema}`, `GRANT CREATE ON DATABASE ${database} TO ${role}`];
  throw new ConfigError('warehouse_refused', `${shown}: the role "${facts.role}" may not ${action}`, {
    hint: `have the owner or an administrator run: ${grant}; then run the same command again`,
  });
}

const RIGHTS = `SELECT current_user::text AS role, pg_catalog.current_database()::text AS database,
    n.oid IS NOT NULL AS has_schema,
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS may_create_schema,
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false)
      AS may_create_tables
  FROM (SELECT $1::text::name AS name) AS asked LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = asked.name`;

/**
 * Throws `ConfigError` if an object of another role would run with our rights: a function or operator in the schema with
 * the name of one of Postgres's own, or a trigger on a table that we write. Other roles may add such objects later, so
 * our statements call functions that take any type with their schema.
 */
export async function refuseStrangers(execute: ExecuteSql, { schema, shown }: PostgresSchema): Promise<void> {
  const { rows } = await execute<{ what: string; owner: string; remedy: string }>(STRANGERS, [schema]);
  if (rows.length === 0) return;
  const names = rows.map(({ what, owner }) => `${what} (of ${owner})`).join(', ');
  throw new ConfigError(
    'schema_unsafe',
    `${shown}: what belongs to other roles could run with the rights of content-sync: ${names}`,
    {
      hint: `find out why it is there; then run: ${rows.map(({ remedy }) => remedy).join('; ')}; and let nobody else make things there: REVOKE CREATE ON SCHEMA ${quoted(schema)} FROM ...`,
    },
  );
}

/** Objects of strangers: roles other than superusers, our role, the database's owner and `pg_database_owner`. */
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
 * Revokes the rights that default privileges give on internal tables, in the transaction that creates the tables. Rights
 * that an administrator has granted to other roles stay.
 */
export async function hideInternalTables({ execute }: Session, schema: string): Promise<void> {
  const { rows } = await execute<{ name: string; role: string }>(
    `SELECT relation.relname AS name, coalesce(pg_catalog.quote_ident(reader.rolname), 'PUBLIC') AS role
      FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS given
      LEFT JOIN pg_roles AS reader ON reader.oid = given.grantee
      WHERE relation.relnamespace = $1::regnamespace AND pg_catalog.starts_with(relation.relname, '_sync_')
        AND relation.relkind = 'r' AND given.grantee <> relation.relowner AND given.grantee IN (
          SELECT later.grantee FROM pg_default_acl AS usual CROSS JOIN LATERAL aclexplode(usual.defaclacl) AS later
          WHERE usual.defaclnamespace IN (0, $1::regnamespace) AND usual.defaclobjtype = 'r')`,
    [quoted(schema)],
  );
  for (const { name, role } of rows) await execute(`REVOKE ALL ON ${qualified(schema, [name])} FROM ${role}`);
}

/** Lets a role read a source's tables and views. Throws `ConfigError`. */
export async function grantReading(session: Session, schema: string, role: string): Promise<Readers> {
  const { execute } = session;
  const isNew = await createRole(session, role);
  const { internal, readable, others } = await listRelations(session, schema);
  const [inSchema, to] = [quoted(schema), quoted(role)];
  await execute(`GRANT USAGE ON SCHEMA ${inSchema} TO ${to}`);
  if (internal.length > 0) await execute(`REVOKE ALL ON ${qualified(schema, internal)} FROM ${to}`);
  if (readable.length > 0) await execute(`GRANT SELECT ON ${qualified(schema, readable)} TO ${to}`);
  // For later tables and views; `hideInternalTables` revokes internal tables.
  await execute(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${inSchema} GRANT SELECT ON TABLES TO ${to}`);
  return { schema, isNew, readable, others };
}

/** Revokes the rights of `grantReading`. Throws `ConfigError` if there is no such role. */
export async function revokeReading(session: Session, schema: string, role: string): Promise<Readers> {
  const { execute } = session;
  if (!(await readRole(session, role)).exists) {
    throw new ConfigError('usage', `there is no role "${role}"`, {
      hint: 'nothing is left to be revoked',
    });
  }
  const { internal, readable, others } = await listRelations(session, schema);
  const from = quoted(role);
  await execute(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${quoted(schema)} REVOKE ALL ON TABLES FROM ${from}`);
  const all = [...internal, ...readable];
  if (all.length > 0) await execute(`REVOKE ALL ON ${qualified(schema, all)} FROM ${from}`);
  await execute(`REVOKE ALL ON SCHEMA ${quoted(schema)} FROM ${from}`);
  return { schema, isNew: false, readable, others };
}

/** Returns true if the role was created. Throws `ConfigError` if it may write, or cannot be created. */
async function createRole(session: Session, role: string): Promise<boolean> {
  const { exists, is_writer, may_create } = await readRole(session, role);
  if (is_writer) {
    throw new ConfigError('usage', `the role "${role}" may do all that content-sync may, and not only read`, {
      hint: 'name another role with --role: one that is missing is made',
    });
  }
  if (exists) return false;
  const statement = `CREATE ROLE ${quoted(role)} NOLOGIN`;
  if (!may_create) {
    throw new ConfigError('warehouse_refused', `there is no role "${role}", and content-sync may not make one`, {
      hint: `have an administrator run: ${statement}; then run the same command again`,
    });
  }
  await session.execute(statement);
  return true;
}

interface RoleFacts {
  exists: boolean;
  /** True for a superuser, our own role, and its members. */
  is_writer: boolean;
  /** True if our role may create roles. */
  may_create: boolean;
}

async function readRole({ execute }: Session, role: string): Promise<RoleFacts> {
  const facts = await execute<RoleFacts>(
    `SELECT role.oid IS NOT NULL AS exists,
        coalesce(pg_has_role(role.oid, me.oid, 'MEMBER'), false) AS is_writer,
        me.rolsuper OR me.rolcreaterole AS may_create
      FROM pg_roles AS me LEFT JOIN pg_roles AS role ON role.rolname = $1 WHERE me.rolname = current_user`,
    [role],
  );
  return onlyRow(facts);
}

/** Names of internal tables, of copied tables and views, and of the relations whose rights we may not change. */
async function listRelations({ execute }: Session, schema: string) {
  const { rows } = await execute<{ name: string; kind: 'internal' | 'readable' | 'other' }>(
    `SELECT relname AS name, CASE WHEN NOT pg_has_role(relowner, 'USAGE') THEN 'other'
        WHEN pg_catalog.starts_with(relname, '_sync_') THEN 'internal' ELSE 'readable' END AS kind
      FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname`,
    [quoted(schema)],
  );
  const names = (wanted: string): string[] => rows.flatMap(({ name, kind }) => (kind === wanted ? [name] : []));
  return { internal: names('internal'), readable: names('readable'), others: names('other') };
}

function qualified(schema: string, names: readonly string[]): string {
  return names.map((name) => `${quoted(schema)}.${quoted(name)}`).join(', ');
}
