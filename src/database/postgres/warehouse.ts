// A source's schema on Postgres: opening it for writing or reading, and the methods of `Warehouse`.
import { Kysely, sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { Readers, ReadersRequest, StoredSizes } from '../database.ts';
import { inboxQueries, type InboxTables, type InboxViewer } from '../inbox.ts';
import { refuseOtherVersion } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { RowQueries, type WarehouseReader } from '../reading.ts';
import type { SnapshotReader } from '../snapshot-reader.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';
import type { PostgresAddress } from './address.ts';
import {
  checkServer,
  cleanTables,
  INBOX_TABLES,
  OPEN_TIMEOUT_MS,
  type OpenDatabase,
  openDatabase,
  readAppliedMigrations,
  type TableSet,
  WAREHOUSE_TABLES,
} from './connection/open-database.ts';
import { ownDialect } from './connection/own-dialect.ts';
import { borrowDatabase } from './connection/pools.ts';
import { grantReading, refuseMissingRights, revokeReading } from './connection/schema-rights.ts';
import { asStep, type Session } from './connection/session.ts';
import {
  COMMIT_MARKS,
  COMMON_SCHEMA,
  databaseNow,
  execute,
  executeInUtc,
  type PostgresSchema,
  transact,
} from './connection/transact.ts';
import { maintainIndexes, retryWithoutLongIndexes } from './keys/maintain-keys.ts';
import { writePage } from './pages/write-page.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { growTables } from './widening/grow-tables.ts';
import { dropTables, stageTables, swapTables } from './widening/swap-tables.ts';

export { openCoordination } from './coordination/open-coordination.ts';
export { sharedStatements } from './coordination/shared-statements.ts';
export { openInbox } from './inbox/open-inbox.ts';

/** Opens (and creates, and migrates) a source's schema. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(address: PostgresAddress, clock: Clock): Promise<Warehouse> {
  const { database, own, close } = await openDatabase<OwnTables>(address, clock, WAREHOUSE_TABLES);

  function underLease<T>(lease: LeaseProof | undefined, work: (session: Session) => Promise<T>): Promise<T> {
    return transact(database, work, lease === undefined ? {} : { lease });
  }

  return {
    own,
    rows: createRowQueries(own, database.schema),
    dialect: VIEW_DIALECT,
    isOnNetwork: true,
    keepsMicroseconds: true,
    now: () => databaseNow(database),
    snapshot: () => snapshotReader(database, () => Promise.resolve()),
    evolve: (growth) => growTables(database, growth),
    stageTables: (staging) => stageTables(database, staging),
    swapTables: (swap) => swapTables(database, swap),
    dropTables: (removal) => dropTables(database, removal),
    maintainKeys: (plan, lease) => maintainIndexes(database, plan, lease),
    commit: ({ rows, lease, statements }) => {
      const steps = [...writePage(rows), ...statements.map(asStep)];
      return retryWithoutLongIndexes(database, rows.resource, () =>
        underLease(lease, (session) => session.runAll(steps)),
      );
    },
    selectCount: async (query) => Number(Object.values((await executeInUtc(database)(query)).rows[0] ?? {})[0]),
    apply: (queries, lease) => underLease(lease, (session) => session.runAll(queries.map(asStep))),
    // Each commit waits for the server's log, which also has all earlier commits.
    persist: () => Promise.resolve(),
    clean: (tables) => cleanTables(database, tables),
    upkeep: () => Promise.resolve(),
    close,
  };
}

/** Names of tables, views and indexes, in lower case. */
async function tableNames(own: Kysely<OwnTables>, schema: string): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("relname") AS "name" FROM pg_class
    WHERE "relnamespace" = (SELECT "oid" FROM pg_namespace WHERE "nspname" = ${schema})`.execute(own);
  return new Set(rows.map((row) => row.name));
}

/** Creates the queries on copied rows. They name the schema, because they run without a search path. */
function createRowQueries(own: Kysely<OwnTables>, schema: string): RowQueries {
  return new RowQueries(own, {
    named: (table) => sql`${sql.id(schema, table)}`,
    tableNames: () => tableNames(own, schema),
    timestamp: (text) => sql`${text === '' ? '-infinity' : `${text}+00`}::timestamptz`,
    insertOrder: 'ctid',
    timestampText: (cell) => sql`${cell} AT TIME ZONE 'UTC'`,
    isAmong: (text, texts) => sql`${text} = ANY(${texts})`,
    isUntimed: (text) => sql`coalesce(ltrim(${text}::text, '"'), '') !~ '^[0-9]'`,
  });
}

/** Opens a source's schema for reading; null if it has no internal tables. Throws `ConfigError` if the role may not. */
export async function openExistingWarehouse(address: PostgresAddress, clock: Clock): Promise<WarehouseReader | null> {
  const opened = await openExisting<OwnTables>(address, clock, WAREHOUSE_TABLES);
  if (opened === null) return null;
  const { database, own, close } = opened;
  return {
    own,
    rows: createRowQueries(own, database.schema),
    dialect: VIEW_DIALECT,
    isWritable: () => isWritable(database),
    server: () => describeServer(own),
    close,
  };
}

export async function openSnapshot(address: PostgresAddress, clock: Clock): Promise<SnapshotReader | null> {
  const opened = await openExisting<OwnTables>(address, clock, WAREHOUSE_TABLES);
  return opened === null ? null : snapshotReader(opened.database, opened.close);
}

export async function openExistingInbox(address: PostgresAddress, clock: Clock): Promise<InboxViewer | null> {
  const opened = await openExisting<InboxTables>(address, clock, INBOX_TABLES);
  return opened === null ? null : inboxQueries(opened.own, opened.close);
}

async function openExisting<Tables>(
  address: PostgresAddress,
  clock: Clock,
  tables: TableSet,
): Promise<OpenDatabase<Tables> | null> {
  const { database, release } = borrowDatabase(address, clock);
  try {
    await checkServer(database);
    const done = await readAppliedMigrations(database, tables);
    if (done !== null) {
      refuseOtherVersion(database.shown, done, tables.migrations);
      const own = new Kysely<Tables>({ dialect: ownDialect(database) }).withSchema(database.schema);
      return { database, own, close: release };
    }
    await refuseClosedSchema(database);
  } catch (error) {
    await release();
    throw error;
  }
  await release();
  return null;
}

/** Throws if the schema exists but the role may not use it: then its tables are invisible. */
async function refuseClosedSchema(database: PostgresSchema): Promise<void> {
  const { rows } = await execute(database, { retryForMs: OPEN_TIMEOUT_MS })<{ role: string; grants: string }>(
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

/**
 * Returns the names of external tables in the schema. Throws `ConfigError` if the server cannot be used, or the role may
 * not create the schemas or tables in them.
 */
export async function assertWritable(address: PostgresAddress, clock: Clock): Promise<ReadonlySet<string>> {
  const { database, release } = borrowDatabase(address, clock);
  try {
    await checkServer(database);
    const common = { ...database, schema: COMMON_SCHEMA };
    const schemas = (await readAppliedMigrations(common, COMMIT_MARKS)) === null ? [common, database] : [database];
    const run = execute(database, { retryForMs: OPEN_TIMEOUT_MS });
    for (const schema of schemas) await refuseMissingRights(run, schema);
    return await tableNames(new Kysely<OwnTables>({ dialect: ownDialect(database) }), database.schema);
  } finally {
    await release();
  }
}

/** Changes in one transaction what a role may read. Throws `ConfigError`. */
export async function changeReaders(address: PostgresAddress, clock: Clock, request: ReadersRequest): Promise<Readers> {
  const { database, close } = await openDatabase(address, clock, WAREHOUSE_TABLES);
  const { schema } = database;
  try {
    return await transact(database, (session) =>
      request.revoke ? revokeReading(session, schema, request.role) : grantReading(session, schema, request.role),
    );
  } finally {
    await close();
  }
}

async function isWritable(database: PostgresSchema): Promise<boolean> {
  const { rows } = await execute(database)<{ may: boolean }>(
    `SELECT current_setting('transaction_read_only') = 'off' AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AS may
      FROM pg_class WHERE relname = '_sync_checkpoints'
        AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`,
    [database.schema],
  );
  return rows[0]?.may === true;
}

async function describeServer(own: Kysely<OwnTables>): Promise<string> {
  const { rows } = await sql<{ version: string; role: string }>`
    SELECT current_setting('server_version') AS version, current_user AS role`.execute(own);
  return rows.map(({ version, role }) => `Postgres ${version}, as role ${role}`).join('');
}

/** Tables with their indexes and TOAST. The log belongs to the whole server. */
export async function schemaSize({ schema }: PostgresAddress, own: Kysely<OwnTables>): Promise<StoredSizes> {
  const { rows } = await sql<{ bytes: number }>`SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ${schema} AND c.relkind IN ('r', 'm')`.execute(own);
  return { file_bytes: rows[0]?.bytes ?? null, wal_bytes: null };
}
