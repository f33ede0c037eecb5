// Replaces the tables of a resource by rebuilt ones (`content-sync warehouse rebuild`), and drops tables.
//
// Administrators may have granted rights on a table, or restricted it, for example by row level security. The new table
// gets the same. If it could not, nothing is changed: otherwise readers would see rows that they must not see.
import { escapeIdentifier as quoted } from 'pg';
import { ConfigError, SyncError } from '../../../model/errors.ts';
import { internalColumns } from '../../table-layout.ts';
import { growthOutdated, type TableRemoval, type TableStaging, type TableSwap } from '../../warehouse.ts';
import { hideInternalTables } from '../connection/schema-rights.ts';
import { asStep, type Session } from '../connection/session.ts';
import { causeCode, type PostgresSchema, transact } from '../connection/transact.ts';
import { createViews, emptyViews, planViewChanges, renameFormerViews } from '../views/change-views.ts';
import { createDeletedIndex, createTable, prefixedName, updateComments } from './ddl.ts';
import { lockTables, transactExclusively } from './grow-tables.ts';

/** Creates empty tables under temporary names. The caller fills them before `swapTables`. */
export async function stageTables(database: PostgresSchema, staging: TableStaging): Promise<void> {
  const { lease, shape, names, references } = staging;
  const stage = async (session: Session): Promise<void> => {
    const { execute } = session;
    for (const table of shape.tables) {
      const staged = { ...table, name: names.get(table.name) ?? table.name };
      await execute(`DROP TABLE IF EXISTS ${quoted(staged.name)}`);
      const keys = table.columns.filter(({ name }) => references.has(`${table.name}.${name}`));
      const collated = new Set(keys.map(({ name }) => `${staged.name}.${name}`));
      await execute(createTable(staged, collated));
      if (table.path.length === 0) await execute(createDeletedIndex(staged));
    }
    // By default privileges, readers could see the rows here without the restrictions of the current tables.
    await hideInternalTables(session, database.schema);
  };
  await transact(database, stage, { lease, mayRepeat: true });
}

/** SQLSTATEs: an object depends on the table, or on a column or type that the new table does not have. */
const DEPENDED_ON = '2BP01';
const IN_USE = new Set([DEPENDED_ON, '42703', '42883']);

/** Replaces tables by the staged ones, which get the rights, restrictions and comments of the former tables. */
export async function swapTables(database: PostgresSchema, swap: TableSwap): Promise<void> {
  try {
    await transactExclusively(database, swap.lease, (session) => swapIn(session, swap));
  } catch (error) {
    throw IN_USE.has(causeCode(error)) ? tableInUse(error) : error;
  }
  await updateComments(database, swap.comments, swap.shape.tables, swap.views);
}

async function swapIn(session: Session, swap: TableSwap): Promise<void> {
  const { shape, names, dropped, existingViews, views, statements, claim } = swap;
  const { execute } = session;
  // Fails if tables or views have changed since the swap was planned, or if a restriction would be lost.
  await session.runAll([{ ...asStep(claim), errorIfNoRow: growthOutdated }, ...renameFormerViews(views)]);
  await refuseLostRestrictions(session, dropped, PUBLICATIONS);
  const restoreStatements = await readRestoreStatements(session, swap);
  // The views are emptied first, because Postgres drops no table on which a view depends.
  const managed = new Set([...existingViews.keys(), ...views.map(({ name }) => name)]);
  const plan = await planViewChanges(session, views, []);
  await lockTables(session, dropped, await emptyViews(session, [...managed], dropped));
  await execute(`DROP TABLE ${dropped.map(quoted).join(', ')}`);
  for (const [name, staged] of names) {
    await execute(`ALTER TABLE ${quoted(staged)} RENAME TO ${quoted(name)}`);
    const [before, after] = [prefixedName('_sync_key_', staged), prefixedName('_sync_key_', name)];
    await execute(`ALTER TABLE ${quoted(name)} RENAME CONSTRAINT ${quoted(before)} TO ${quoted(after)}`);
  }
  const [root] = shape.tables;
  if (root !== undefined) {
    const before = prefixedName('_sync_deleted_', names.get(root.name) ?? '');
    await execute(`ALTER INDEX ${quoted(before)} RENAME TO ${quoted(prefixedName('_sync_deleted_', root.name))}`);
  }
  await session.runAll(statements.map(asStep));
  // All views are created again.
  const detached = new Map(views.map(({ name }) => [name, '']));
  for (const statement of createViews({ ...plan, retyped: [], detached }, new Map())) await execute(statement);
  for (const statement of restoreStatements) await execute(statement);
}

/** A right, restriction, comment, trigger or index of a former table, as the statement that creates it. */
interface RestoreStatement extends Record<string, unknown> {
  table: string;
  /** Null if it concerns the whole table. */
  column: string | null;
  statement: string;
}

/** Returns the statements that the new tables and columns need to have what users set on the former ones. */
async function readRestoreStatements({ execute }: Session, { shape, dropped }: TableSwap): Promise<string[]> {
  const added = shape.tables.map(({ name }) => name).filter((name) => !dropped.includes(name));
  const { rows } = await execute<RestoreStatement>(RESTORE_STATEMENTS, [dropped, added]);
  const columns = new Map(
    shape.tables.map((table) => [
      table.name,
      new Set([...table.key, ...[...internalColumns(table), ...table.columns].map(({ name }) => name)]),
    ]),
  );
  const fits = ({ table, column }: RestoreStatement): boolean =>
    columns.has(table) && (column === null || columns.get(table)?.has(column) === true);
  return rows.filter(fits).map(({ statement }) => statement);
}

/** The tables `$1`, as rows of `pg_class`. */
const OLD_TABLES = `old AS (SELECT * FROM pg_class WHERE oid = ANY(
  ARRAY(SELECT to_regclass(pg_catalog.quote_ident(name)) FROM pg_catalog.unnest($1::text[]) AS name)))`;

const RESTORE_STATEMENTS = `
  WITH ${OLD_TABLES},
  who AS (SELECT 0::oid AS oid, 'PUBLIC' AS name UNION ALL SELECT oid, pg_catalog.quote_ident(rolname) FROM pg_roles)
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

/** Drops tables; managed views on them stay, empty. Throws `ConfigError('table_in_use')` and `SyncError`. */
export async function dropTables(database: PostgresSchema, removal: TableRemoval): Promise<void> {
  const { lease, tables, views, statements } = removal;
  const drop = async (session: Session): Promise<void> => {
    const { execute } = session;
    await refuseLostRestrictions(session, tables, RESTRICTIONS);
    for (const statement of await emptyViews(session, [...views.keys()], tables)) await execute(statement);
    if (tables.length > 0) await execute(`DROP TABLE IF EXISTS ${tables.map(quoted).join(', ')}`);
    await session.runAll(statements.map(asStep));
  };
  try {
    await transact(database, drop, { lease });
  } catch (error) {
    throw causeCode(error) === DEPENDED_ON ? tableInUse(error) : error;
  }
}

/** Publications that have a table. Only their owner could add the new table. */
const PUBLICATIONS = `
  SELECT pg_catalog.format('publication %I', pubname) AS what, relname FROM old
    JOIN pg_publication_rel AS published ON prrelid = old.oid JOIN pg_publication AS p ON p.oid = prpubid`;

/**
 * Restrictions that an administrator set on a table. The last one is a default privilege that was revoked on this table:
 * a new table would have it again.
 */
const RESTRICTIONS = `${PUBLICATIONS}
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

/** Throws `ConfigError('table_in_use')` if a table has a restriction that `query` finds: a new table would lack it. */
async function refuseLostRestrictions({ execute }: Session, tables: readonly string[], query: string): Promise<void> {
  const { rows } = await execute<{ what: string; name: string }>(
    `WITH ${OLD_TABLES}
      SELECT DISTINCT what, pg_catalog.quote_ident(relname) AS name FROM (${query}) AS found ORDER BY name, what`,
    [tables],
  );
  if (rows.length === 0) return;
  const names = rows.map(({ what, name }) => `${what} of ${name}`).join(', ');
  throw new ConfigError('table_in_use', `a table is to be made again, which would end ${names}`, {
    hint: 'take the right to read the schema from readers, drop it, run the same command again, and set it again; `content-sync warehouse rebuild` keeps all but publications',
  });
}

function tableInUse(error: unknown): ConfigError {
  const cause = error instanceof SyncError ? error.cause : error;
  const detail = cause instanceof Error && 'detail' in cause && typeof cause.detail === 'string' ? cause.detail : null;
  const reason = cause instanceof Error ? ` (${detail ?? cause.message})` : '';
  return new ConfigError('table_in_use', `a table is to be made again, and objects of others depend on it${reason}`, {
    hint: 'drop it, run the same command again, and make it again on the views of the copy, such as content_live, which stay',
    cause,
  });
}
