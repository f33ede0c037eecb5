import { escapeIdentifier } from 'pg';
import { ConfigError } from '../../../model/errors.ts';
import type { ExecuteSql } from '../../database.ts';
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
 * Throws `ConfigError` if something of a role that is neither ours nor trusted by everybody (a superuser, the owner
 * of the schema or of the database) would be run with our rights: what bears the name of a function or an operator of
 * Postgres's own and stands in the schema, in which our statements look for their tables, or is triggered by what we
 * write there.
 */
export async function refuseStrangers(ask: ExecuteSql, { schema, shown }: Schema): Promise<void> {
  const { rows } = await ask<{ what: string; owner: string; remedy: string }>(STRANGERS, [schema]);
  if (rows.length === 0) return;
  const names = rows.map(({ what, owner }) => `${what} (of ${owner})`).join(', ');
  throw new ConfigError(
    'schema_unsafe',
    `${shown}: what other roles made in the schema would run with the rights of content-sync: ${names}`,
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

const STRANGERS = `
  WITH place AS (SELECT oid, nspowner FROM pg_catalog.pg_namespace WHERE nspname = $1::text::name),
  strangers AS (
    SELECT r.oid, r.rolname FROM pg_catalog.pg_roles AS r, place, pg_catalog.pg_database AS d
    WHERE d.datname = pg_catalog.current_database() AND NOT r.rolsuper AND r.rolname <> current_user
      AND r.oid NOT IN (place.nspowner, d.datdba)
  ), found AS (
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
    `SELECT relation.relname AS name, reader.rolname AS role
      FROM pg_class AS relation CROSS JOIN LATERAL aclexplode(relation.relacl) AS given
      JOIN pg_roles AS reader ON reader.oid = given.grantee
      WHERE relation.relnamespace = $1::regnamespace AND starts_with(relation.relname, '_sync_')
        AND relation.relkind = 'r' AND given.grantee <> relation.relowner AND given.grantee IN (
          SELECT later.grantee FROM pg_default_acl AS usual CROSS JOIN LATERAL aclexplode(usual.defaclacl) AS later
          WHERE usual.defaclnamespace = $1::regnamespace AND usual.defaclobjtype = 'r')`,
    [escapeIdentifier(schema)],
  );
  for (const { name, role } of rows) {
    await execute(`REVOKE ALL ON ${escapeIdentifier(schema)}.${escapeIdentifier(name)} FROM ${escapeIdentifier(role)}`);
  }
}
