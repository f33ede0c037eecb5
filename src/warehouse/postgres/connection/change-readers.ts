import { escapeIdentifier } from 'pg';
import { ConfigError } from '../../../model/errors.ts';
import type { Clock } from '../../../model/clock.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { Readers, ReadersRequest } from '../../database.ts';
import type { PostgresAddress } from './address.ts';
import { openDatabase, WAREHOUSE_TABLES } from './open-database.ts';
import { onlyRow, type Session } from './session.ts';
import { transact } from './transact.ts';

/** What a role may read of a source's schema is changed in one transaction. Throws `ConfigError` if it may not be. */
export async function changeReaders(address: PostgresAddress, clock: Clock, request: ReadersRequest): Promise<Readers> {
  const opened = await openDatabase<OwnTables>(address, clock, WAREHOUSE_TABLES);
  try {
    const change = request.revoke ? revoke : grant;
    const { database } = opened;
    return await transact(database, (session) => change(session, database.schema, request.role));
  } finally {
    await opened.close();
  }
}

async function grant(session: Session, schema: string, role: string): Promise<Readers> {
  const isNew = await makeRole(session, role);
  const { own, readable, others } = await relationsOf(session, schema);
  const [inSchema, to] = [escapeIdentifier(schema), escapeIdentifier(role)];
  await session.execute(`GRANT USAGE ON SCHEMA ${inSchema} TO ${to}`);
  if (own.length > 0) await session.execute(`REVOKE ALL ON ${listOf(schema, own)} FROM ${to}`);
  if (readable.length > 0) await session.execute(`GRANT SELECT ON ${listOf(schema, readable)} TO ${to}`);
  // What comes later too; tables of our own are taken out again by `hideOwnTables`, when they are made.
  await session.execute(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${inSchema} GRANT SELECT ON TABLES TO ${to}`);
  return { schema, isNew, readable, others };
}

async function revoke(session: Session, schema: string, role: string): Promise<Readers> {
  const facts = await factsOf(session, role);
  if (!facts.is_there) {
    throw new ConfigError('role_missing', `there is no role "${role}"`, { hint: 'nothing is left to be revoked' });
  }
  const { own, readable, others } = await relationsOf(session, schema);
  const [inSchema, from] = [escapeIdentifier(schema), escapeIdentifier(role)];
  await session.execute(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${inSchema} REVOKE ALL ON TABLES FROM ${from}`);
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

/** Tables and views of a schema: those of ours alone, those to be read, and those that are not ours to give. */
async function relationsOf({ execute }: Session, schema: string) {
  const { rows } = await execute<{ name: string; is_own: boolean; is_ours: boolean }>(
    `SELECT relname AS name, starts_with(relname, '_sync_') AS is_own, pg_has_role(relowner, 'USAGE') AS is_ours
      FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname`,
    [escapeIdentifier(schema)],
  );
  const names = (which: (row: (typeof rows)[number]) => boolean): string[] =>
    rows.filter(which).map(({ name }) => name);
  return {
    own: names((row) => row.is_ours && row.is_own),
    readable: names((row) => row.is_ours && !row.is_own),
    others: names((row) => !row.is_ours),
  };
}

function listOf(schema: string, names: readonly string[]): string {
  return names.map((name) => `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`).join(', ');
}
