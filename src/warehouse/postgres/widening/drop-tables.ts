import { escapeIdentifier as quoted } from 'pg';
import { ConfigError, SyncError } from '../../../model/errors.ts';
import type { TableRemoval } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { causeCode, transact, type Database } from '../connection/transact.ts';
import { emptiedViews } from '../views/attach-views.ts';

/** Something else depends on it. */
const IN_USE = '2BP01';

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
    throw causeCode(error) === IN_USE ? tableInUse(error) : error;
  }
}

/** Takes keys of ours off that lead to the tables: they come back with them. */
export async function keysTo({ execute }: Session, tables: readonly string[]): Promise<string[]> {
  const { rows } = await execute<{ statement: string }>(
    `SELECT pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS statement FROM pg_constraint
      WHERE contype = 'f' AND pg_catalog.starts_with(conname, '_sync_')
        AND confrelid = ANY(ARRAY(SELECT to_regclass(pg_catalog.quote_ident(name)) FROM pg_catalog.unnest($1::text[]) AS name))`,
    [tables],
  );
  return rows.map(({ statement }) => statement);
}

/** Membership in a publication: only the owner of a publication may add a table. */
export const PUBLICATIONS = `
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
export async function refuseLostLimits({ execute }: Session, tables: readonly string[], limits: string): Promise<void> {
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
export function tableInUse(error: unknown): ConfigError {
  const cause = error instanceof SyncError ? error.cause : error;
  const said = cause instanceof Error && 'detail' in cause && typeof cause.detail === 'string' ? cause.detail : null;
  const detail = cause instanceof Error ? ` (${said ?? cause.message})` : '';
  return new ConfigError('table_in_use', `a table is to be made again, and objects of others depend on it${detail}`, {
    hint: 'drop it, run the same command again, and make it again on the views of the copy, such as content_live, which stay',
    cause,
  });
}
