// Rights on a schema: says which GRANT is missing, refuses objects of other roles that would run with our rights, and lets
// roles read the copy. Example of an unsafe object: another role creates a function `lower` in the schema, and our query,
// which calls `lower`, would run it.
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
export async function refuseMissingRights(execute: ExecuteSql, { schema, shown }: PostgresSchema): Promise<void> {
  const facts = onlyRow(await execute<RightsFacts>(RIGHTS, [schema]));
  const { has_schema, may_create_schema, may_create_tables } = facts;
  if (has_schema ? may_create_tables : may_create_schema) return;
  const [database, quotedSchema, role] = [facts.database, schema, facts.role].map((name) => quoted(name));
  const [action, grant] = has_schema
    ? [`create tables in the schema ${schema}`, `GRANT USAGE, CREATE ON SCHEMA ${quotedSchema} TO ${role}`]
    : [`create the schema ${schema}`, `GRANT CREATE ON DATABASE ${database} TO ${role}`];
  throw new ConfigError('warehouse_refused', `${shown}: the role "${facts.role}" may not ${action}`, {
    hint: `have the owner or an administrator run: ${grant}; then run the same command again`,
  });
}

const RIGHTS = `SELECT current_user::text AS role, pg_catalog.current_database()::text AS database,
    n.oid IS NOT NULL AS has_schema,
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS may_create_schema,
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false)
      AS may_create_tables
  FROM (SELECT $1::text::name AS name) AS wanted LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = wanted.name`;

/**
 * Throws `ConfigError` if an object of another role would run with our rights: a function or operator in the schema that
 * has the name of a built-in one, or a trigger on a table that we write. Other roles may add such objects later, so our
 * statements name the schema of functions that take any type.
 */
export async function refuseUnsafeObjects(execute: ExecuteSql, { schema, shown }: PostgresSchema): Promise<void> {
  const { rows } = await execute<{ what: string; owner: string; remedy: string }>(UNSAFE_OBJECTS, [schema]);
  if (rows.length === 0) return;
  const names = rows.map(({ what, owner }) => `${what} (of ${owner})`).join(', ');
  const message = `${shown}: objects of other roles could run with the rights of content-sync: ${names}`;
  const remedies = rows.map(({ remedy }) => remedy).join('; ');
  const hint = `find out why they exist; then run: ${remedies}; and let no other role create objects there: REVOKE CREATE ON SCHEMA ${quoted(schema)} FROM ...`;
  throw new ConfigError('schema_unsafe', message, { hint });
}

/** Superusers, our role, the database's owner and `pg_database_owner` are trusted; all other roles are `strangers`. */
const UNSAFE_OBJECTS = `
  WITH our_schema AS (SELECT oid, nspname, nspowner FROM pg_catalog.pg_namespace WHERE nspname = $1::text::name),
  strangers AS (
    SELECT r.oid, r.rolname FROM pg_catalog.pg_roles AS r, pg_catalog.pg_database AS d
    WHERE d.datname = pg_catalog.current_database() AND NOT r.rolsuper
      AND r.rolname NOT IN (current_user, 'pg_database_owner') AND r.oid <> d.datdba
  ), found AS (
    SELECT 'the schema itself' AS what, nspowner AS owner, 'ALTER SCHEMA ' || pg_catalog.quote_ident(nspname)
      || ' OWNER TO ' || pg_catalog.quote_ident(current_user) AS remedy FROM our_schema
    UNION ALL
    SELECT p.oid::regprocedure::text AS what, p.proowner AS owner, 'DROP ROUTINE ' || p.oid::regprocedure::text AS remedy
    FROM pg_catalog.pg_proc AS p JOIN our_schema ON p.pronamespace = our_schema.oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_proc AS own
      WHERE own.pronamespace = 'pg_catalog'::regnamespace AND own.proname = p.proname)
    UNION ALL
    SELECT o.oid::regoperator::text, o.oprowner, 'DROP OPERATOR ' || o.oid::regoperator::text
    FROM pg_catalog.pg_operator AS o JOIN our_schema ON o.oprnamespace = our_schema.oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_operator AS own
      WHERE own.oprnamespace = 'pg_catalog'::regnamespace AND own.oprname = o.oprname)
    UNION ALL
    SELECT 'trigger ' || pg_catalog.quote_ident(t.tgname) || ' on ' || c.oid::regclass::text, p.proowner,
      'DROP TRIGGER ' || pg_catalog.quote_ident(t.tgname) || ' ON ' || c.oid::regclass::text
    FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
    JOIN our_schema ON c.relnamespace = our_schema.oid JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
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
      FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS granted
      LEFT JOIN pg_roles AS reader ON reader.oid = granted.grantee
      WHERE relation.relnamespace = $1::regnamespace AND pg_catalog.starts_with(relation.relname, '_sync_')
        AND relation.relkind = 'r' AND granted.grantee <> relation.relowner AND granted.grantee IN (
          SELECT by_default.grantee FROM pg_default_acl AS defaults CROSS JOIN LATERAL aclexplode(defaclacl) AS by_default
          WHERE defaclnamespace IN (0, $1::regnamespace) AND defaclobjtype = 'r')`,
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
  // Also grants tables and views that are created later; `hideInternalTables` revokes internal tables.
  await execute(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${inSchema} GRANT SELECT ON TABLES TO ${to}`);
  return { schema, isNew, readable, others };
}

/** Revokes what `grantReading` has granted. Throws `ConfigError` if there is no such role. */
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
    const hint = 'name another role with --role; it is created if it does not exist';
    throw new ConfigError('usage', `the role "${role}" has all rights of content-sync`, { hint });
  }
  if (exists) return false;
  const statement = `CREATE ROLE ${quoted(role)} NOLOGIN`;
  if (!may_create) {
    throw new ConfigError('warehouse_refused', `there is no role "${role}", and content-sync may not create one`, {
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
