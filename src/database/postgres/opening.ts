import { Kysely, sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { ReadersRequest, StoredSizes } from '../database.ts';
import type { InboxTables } from '../inbox.ts';
import { refuseOtherVersion } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { WarehouseReader } from '../reading.ts';
import { inboxViewer, type InboxViewer } from '../inbox-queries.ts';
import type { SnapshotReader } from '../snapshot-reader.ts';
import type { PostgresAddress } from './connection/address.ts';
import {
  checkServer,
  openDatabase,
  INBOX_TABLES,
  stepsDone,
  WAREHOUSE_TABLES,
  type OpenDatabase,
  type TableSet,
} from './connection/open-database.ts';
import { COMMIT_MARKS, COMMON_SCHEMA, execute, transact, type Database } from './connection/transact.ts';
import { ownDialect } from './connection/own-dialect.ts';
import { borrowDatabase } from './connection/pools.ts';
import { grantReading, revokeReading, refuseWithoutCreate } from './connection/schema-rights.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { rowsIn, tableNames } from './warehouse.ts';

export { openCoordination, sharedStatements } from './coordination/open-coordination.ts';
export { openInbox } from './inbox/open-inbox.ts';
export { openWarehouse } from './warehouse.ts';

const OPEN_MS = 5_000;

/** Null if the schema has no tables of ours. Throws `ConfigError` if the role may not read them. */
export async function lookForWarehouse(address: PostgresAddress, clock: Clock): Promise<WarehouseReader | null> {
  const opened = await look<OwnTables>(address, clock, WAREHOUSE_TABLES);
  if (opened === null) return null;
  const { database, own, close } = opened;
  return {
    ...rowsIn(own, database.schema),
    own,
    dialect: VIEW_DIALECT,
    isWritable: () => isWritable(database),
    server: () => serverText(own),
    close,
  };
}

/** The same, all as of one moment. */
export async function openSnapshot(address: PostgresAddress, clock: Clock): Promise<SnapshotReader | null> {
  const opened = await look<OwnTables>(address, clock, WAREHOUSE_TABLES);
  return opened === null ? null : snapshotReader(opened.database, opened.close);
}

/** Null if the schema has no tables of ours. */
export async function lookForInbox(address: PostgresAddress, clock: Clock): Promise<InboxViewer | null> {
  const opened = await look<InboxTables>(address, clock, INBOX_TABLES);
  return opened === null ? null : inboxViewer(opened.own, opened.close);
}

/** What a role may read is changed in one transaction. Throws `ConfigError` if it may not be. */
export async function changeReaders(address: PostgresAddress, clock: Clock, request: ReadersRequest) {
  const { database, close } = await openDatabase(address, clock, WAREHOUSE_TABLES);
  try {
    return await transact(database, (session) =>
      request.revoke
        ? revokeReading(session, database.schema, request.role)
        : grantReading(session, database.schema, request),
    );
  } finally {
    await close();
  }
}

/**
 * Names of tables that others made in the schema. Throws `ConfigError` if the server cannot be used, or the role may not
 * make the schemas or tables in them.
 */
export async function refuseMaking(address: PostgresAddress, clock: Clock): Promise<ReadonlySet<string>> {
  const { database, release } = borrowDatabase(address, clock);
  try {
    await checkServer(database);
    const common = { ...database, schema: COMMON_SCHEMA };
    const places = (await stepsDone(common, COMMIT_MARKS)) === null ? [common, database] : [database];
    for (const place of places) await refuseWithoutCreate(execute(database, { retryForMs: OPEN_MS }), place);
    return await tableNames(new Kysely<OwnTables>({ dialect: ownDialect(database) }), database.schema);
  } finally {
    await release();
  }
}

async function look<Tables>(
  address: PostgresAddress,
  clock: Clock,
  tables: TableSet,
): Promise<OpenDatabase<Tables> | null> {
  const { database, release } = borrowDatabase(address, clock);
  let isOpen = false;
  try {
    await checkServer(database);
    const done = await stepsDone(database, tables);
    if (done === null) await refuseClosed(database);
    else refuseOtherVersion(database.shown, done, tables.migrations);
    if (done === null) return null;
    const own = new Kysely<Tables>({ dialect: ownDialect(database) }).withSchema(database.schema);
    isOpen = true;
    return { database, own, close: release };
  } finally {
    if (!isOpen) await release();
  }
}

/** Throws if the schema is there, but closed to the role: then nobody knows what is in it. */
async function refuseClosed(database: Database): Promise<void> {
  const { rows } = await execute(database, { retryForMs: OPEN_MS })<{ role: string; grants: string }>(
    `SELECT current_user::text AS role, pg_catalog.format('GRANT USAGE ON SCHEMA %1$I TO %2$I; GRANT SELECT ON ALL TABLES IN SCHEMA %1$I TO %2$I',
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

async function serverText(own: Kysely<OwnTables>): Promise<string> {
  const { rows } = await sql<{ version: string; role: string }>`
    SELECT current_setting('server_version') AS version, current_user AS role`.execute(own);
  return rows.map(({ version, role }) => `Postgres ${version}, as role ${role}`).join('');
}

/** Tables with their indexes and long values. The log belongs to the whole server. */
export async function schemaSize({ schema }: PostgresAddress, own: Kysely<OwnTables>): Promise<StoredSizes> {
  const { rows } = await sql<{ bytes: number }>`SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ${schema} AND c.relkind IN ('r', 'm')`.execute(own);
  return { file_bytes: rows[0]?.bytes ?? null, wal_bytes: null };
}
