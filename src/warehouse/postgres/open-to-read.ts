import { Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { InboxTables } from '../inbox.ts';
import { INBOX_MIGRATIONS, refuseOtherVersion, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { inboxViewer, type InboxViewer, type WarehouseReader } from '../reading.ts';
import { postgresPlace } from './connection/address.ts';
import { checkServer, stepsDone, type OpenDatabase, type TableSet } from './connection/open-database.ts';
import { ownDialect } from './connection/own-dialect.ts';
import { borrowPool } from './connection/pools.ts';
import { count, countDeleted } from './postgres-warehouse.ts';
import { refuseWithoutCreate } from './connection/schema-rights.ts';
import { execute, type Database } from './connection/transact.ts';

const OPEN_MS = 5_000;
const WAREHOUSE: TableSet = { migrations: WAREHOUSE_MIGRATIONS, table: '_sync_migrations' };
const INBOX: TableSet = { migrations: INBOX_MIGRATIONS, table: '_sync_inbox_migrations' };

/** Null where the schema has no tables of ours. Throws `ConfigError` where the role may not read them. */
export async function lookIntoPostgres(rest: string, clock: Clock): Promise<WarehouseReader | null> {
  const opened = await look<OwnTables>(rest, clock, WAREHOUSE);
  if (opened === null) return null;
  const { database, own, close } = opened;
  return {
    own,
    count: (table) => count(own, database.schema, table),
    countDeleted: (table, since) => countDeleted(own, database.schema, table, since),
    isWritable: () => isWritable(database),
    close,
  };
}

/** The same of the deliveries in it. */
export async function lookIntoPostgresInbox(rest: string, clock: Clock): Promise<InboxViewer | null> {
  const opened = await look<InboxTables>(rest, clock, INBOX);
  return opened === null ? null : inboxViewer(opened.own, opened.close);
}

/** Throws `ConfigError` where the server cannot be used, or the role may not make the schema or tables in it. */
export async function refuseMakingPostgres(rest: string, clock: Clock): Promise<void> {
  const { database, giveBack } = borrow(rest, clock);
  try {
    await checkServer(database);
    await refuseWithoutCreate(execute(database, { patienceMs: OPEN_MS }), database);
  } finally {
    await giveBack();
  }
}

function borrow(rest: string, clock: Clock): { database: Database; giveBack: () => Promise<void> } {
  const { connection, schema, shown } = postgresPlace(rest);
  const { pool, giveBack } = borrowPool(connection);
  return { database: { pool, schema, shown, clock, random: Math.random }, giveBack };
}

async function look<Tables>(rest: string, clock: Clock, tables: TableSet): Promise<OpenDatabase<Tables> | null> {
  const { database, giveBack } = borrow(rest, clock);
  let isOpen = false;
  try {
    await checkServer(database);
    const done = await stepsDone(database, tables);
    if (done === null) await refuseClosed(database);
    else refuseOtherVersion(database.shown, done, tables.migrations);
    if (done === null) return null;
    const own = new Kysely<Tables>({ dialect: ownDialect(database) }).withSchema(database.schema);
    isOpen = true;
    return { database, own, close: giveBack };
  } finally {
    if (!isOpen) await giveBack();
  }
}

/** Throws where the schema is there, and closed to the role: then nobody knows what is in it. */
async function refuseClosed(database: Database): Promise<void> {
  const { rows } = await execute(database, { patienceMs: OPEN_MS })<{ role: string; grants: string }>(
    `SELECT current_user::text AS role, format('GRANT USAGE ON SCHEMA %1$I TO %2$I; GRANT SELECT ON ALL TABLES IN SCHEMA %1$I TO %2$I',
        nspname, current_user) AS grants
      FROM pg_namespace WHERE nspname = $1 AND NOT has_schema_privilege(oid, 'USAGE')`,
    [database.schema],
  );
  const [closed] = rows;
  if (closed === undefined) return;
  throw new ConfigError('warehouse_refused', `${database.shown}: the role "${closed.role}" may not look into it`, {
    hint: `to let it read, have the owner or an administrator run: ${closed.grants}`,
  });
}

async function isWritable(database: Database): Promise<boolean> {
  const { rows } = await execute(database)<{ may: boolean }>(
    `SELECT current_setting('transaction_read_only') = 'off' AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AS may
      FROM pg_class WHERE relname = '_sync_checkpoints'
        AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`,
    [database.schema],
  );
  return rows[0]?.may === true;
}
