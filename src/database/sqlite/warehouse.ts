// A source's database file, as a `Warehouse`. Each write is one transaction that first renews the lease of its resource, so
// that a process which has lost the lease writes nothing.
import type { Database } from 'better-sqlite3';
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { LAST_APPLIED, newerMigrationError, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { RowQueries } from '../reading.ts';
import { leaseLost, type LeaseProof, type Warehouse } from '../warehouse.ts';
import {
  cleanFile,
  configureWarehouse,
  openFile,
  type RetryWhileLocked,
  syncWal,
  truncateLargeWal,
} from './connection/open-file.ts';
import { openBesideWriter } from './connection/read-only-file.ts';
import { maintainIndexes } from './keys/maintain-keys.ts';
import { writePage } from './pages/write-page.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { dropTables, growTables, stageTables, swapTables } from './widening/change-tables.ts';

/** Opens (and creates, and migrates) a source's database file. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(file: string, clock: Clock): Promise<Warehouse> {
  const open = await openFile<OwnTables>(file, clock, {
    migrations: WAREHOUSE_MIGRATIONS,
    configure: configureWarehouse,
  });
  const { db, own, retryWhileLocked, name } = open;
  const transact = createTransact(db, retryWhileLocked);
  /** Runs `work`, then the statements, in one transaction. */
  const commit = (lease: LeaseProof | undefined, work: () => void, statements: readonly CompiledQuery[]) =>
    transact(lease, () => {
      work();
      for (const { sql: text, parameters } of statements) db.prepare(text).run(...parameters);
    });
  const truncateLog = (): void => {
    // Skip if the file at this path was replaced.
    if (name.leadsToOpenFiles()) truncateLargeWal(db);
  };

  return {
    own,
    rows: createRowQueries(own),
    dialect: VIEW_DIALECT,
    isOnNetwork: false,
    keepsMicroseconds: false,
    now: () => Promise.resolve(clock.now()),
    snapshot: () => retryWhileLocked(() => snapshotReader(openBesideWriter(db.name))),
    evolve: async (growth) => {
      await commit(growth.lease, () => growTables(db, growth), growth.statements);
      return [];
    },
    dropTables: (removal) => commit(removal.lease, () => dropTables(db, removal), removal.statements),
    stageTables: (staging) => commit(staging.lease, () => stageTables(db, staging), []),
    swapTables: (swap) => commit(swap.lease, () => swapTables(db, swap), swap.statements),
    maintainKeys: (plan, lease) => {
      const run = (text: string): Promise<void> => transact(lease(), () => void db.exec(text));
      return maintainIndexes(db, plan, run, retryWhileLocked);
    },
    commit: ({ rows, lease, statements }) => commit(lease, () => writePage(db, rows), statements),
    selectCount: (query) => retryWhileLocked(() => Number(db.prepare<[], bigint>(query).pluck().get())),
    apply: (statements, lease) => commit(lease, () => undefined, statements),
    clean: () => cleanFile(open),
    persist: () => syncWal(db.name),
    upkeep: async () => {
      // Most of many sources are idle, and each connection would keep its cache.
      db.pragma('shrink_memory');
      truncateLog();
    },
    close: async () => {
      // Closing does not truncate the log if another program has the file open.
      truncateLog();
      await open.close();
    },
  };
}

/** Names of tables, views and indexes, in lower case. */
export async function tableNames(own: Kysely<OwnTables>): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("name") AS "name" FROM sqlite_schema`.execute(own);
  return new Set(rows.map((row) => row.name));
}

export function createRowQueries(own: Kysely<OwnTables>): RowQueries {
  return new RowQueries(own, {
    named: (table) => sql`${sql.id(table)}`,
    tableNames: () => tableNames(own),
    timestamp: (text) => sql`${text}`,
    insertOrder: 'rowid',
    timestampText: (cell) => cell,
    isAmong: (text, texts) => sql`${text} IN (SELECT value FROM json_each(${JSON.stringify(texts)}))`,
    isUntimed: (text) => sql`coalesce(ltrim(${text}, '"'), '') NOT GLOB '[0-9]*'`,
  });
}

/** Runs work in one transaction, under the lease if one is given. */
type Transact = <T>(lease: LeaseProof | undefined, work: () => T) => Promise<T>;

function createTransact(db: Database, retryWhileLocked: RetryWhileLocked): Transact {
  const lastApplied = db.prepare(`SELECT ${LAST_APPLIED}`).pluck();
  const renew = db.prepare(RENEW_LEASE);
  const verifyLease = ({ name, token, fence, expiresAt, commits }: LeaseProof): void => {
    const newer = newerMigrationError(lastApplied.get());
    if (newer !== null) throw newer;
    if (renew.run(expiresAt, name, token, fence, commits()).changes === 0) throw leaseLost(name);
  };
  return (lease, work) => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) verifyLease(lease);
      return work();
    });
    return retryWhileLocked(() => {
      // IMMEDIATE, because a read that turns into a write fails at once if another process has written in between.
      const result = transaction.immediate();
      lease?.committed();
      return result;
    });
  };
}

/** Changes nothing if another process has taken the lease, or if the file was replaced by one that lacks commits. */
const RENEW_LEASE = `UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
  WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`;
