import type { Database } from 'better-sqlite3';
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { LAST_DONE, migratedMeanwhile, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { rowQueries } from '../reading.ts';
import { leaseLost, type LeaseProof, type Warehouse } from '../warehouse.ts';
import { configureWarehouse } from './connection/configure.ts';
import { openFile, type OpenFile } from './connection/open-file.ts';
import { readBeside } from './connection/unchanged-file.ts';
import type { RetryWhileLocked } from './connection/wait-for-lock.ts';
import { cleanFile, syncLog, truncateLargeWal } from './connection/wal-upkeep.ts';
import { tendIndexes } from './keys/tend-indexes.ts';
import { cacheStatements, type Prepare, writePage } from './pages/write-page.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { emptyBrokenViews } from './views/make-views.ts';
import { growTables } from './widening/grow-tables.ts';
import { stageTables, swapTables } from './widening/swap-tables.ts';

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(file: string, clock: Clock): Promise<Warehouse> {
  const kind = { migrations: WAREHOUSE_MIGRATIONS, configure: configureWarehouse };
  return sqliteWarehouse(await openFile<OwnTables>(file, clock, kind), clock);
}

/** The warehouse on an open and migrated database. */
function sqliteWarehouse(open: OpenFile<OwnTables>, clock: Clock): Warehouse {
  const { db, own, retryWhileLocked, name } = open;
  const transact = transactions(db, retryWhileLocked);
  const prepare = cacheStatements(db);
  // Skip if the file at this path was replaced.
  const upkeep = (): void => {
    if (name.isOwn()) truncateLargeWal(db);
  };

  return {
    ...rowsIn(own),
    own,
    dialect: VIEW_DIALECT,
    isOnNetwork: false,
    keepsMicroseconds: false,
    now: () => Promise.resolve(clock.now()),
    snapshot: () => retryWhileLocked(() => snapshotReader(readBeside(db.name))),
    ...tableChanges(open, transact, prepare),
    tendKeys: (plan, lease) => {
      const run = (text: string): Promise<void> => transact(lease(), () => void db.exec(text));
      return tendIndexes(db, plan, run, retryWhileLocked);
    },
    commit: ({ rows, lease, statements }) =>
      transact(lease, () => {
        writePage(prepare, rows);
        runStatements(prepare, statements);
      }),
    selectCount: (query) => retryWhileLocked(() => Number(db.prepare<[], bigint>(query).pluck().get())),
    apply: (queries, lease) => transact(lease, () => runStatements(prepare, queries)),
    clean: () => cleanFile(db, retryWhileLocked),
    persist: () => syncLog(db.name),
    upkeep: () => {
      // Of many sources most are idle, and each would keep its cache.
      db.pragma('shrink_memory');
      upkeep();
      return Promise.resolve();
    },
    close: async () => {
      // If another program has the file open too, closing does not copy what was written.
      upkeep();
      await open.close();
    },
  };
}

type TableMethods = Pick<Warehouse, 'evolve' | 'dropTables' | 'stageTables' | 'swapTables'>;

/** Makes, changes and drops tables, each with the views on them in one transaction. */
function tableChanges({ db, own }: OpenFile<OwnTables>, transact: Transact, prepare: Prepare): TableMethods {
  return {
    evolve: (growth) =>
      transact(growth.lease, () => {
        growTables(db, own, growth);
        runStatements(prepare, growth.statements);
        return [];
      }),
    dropTables: ({ lease, tables, views, statements }) =>
      transact(lease, () => {
        for (const table of tables) db.exec(`DROP TABLE IF EXISTS ${VIEW_DIALECT.id(table)}`);
        emptyBrokenViews(db, views);
        runStatements(prepare, statements);
      }),
    stageTables: (staging) => transact(staging.lease, () => stageTables(db, own, staging)),
    swapTables: (swap) =>
      transact(swap.lease, () => {
        swapTables(db, own, swap);
        runStatements(prepare, swap.statements);
      }),
  };
}

/** In lower case, with those of indexes. */
export async function tableNames(own: Kysely<OwnTables>): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("name") AS "name" FROM sqlite_schema`.execute(own);
  return new Set(rows.map((row) => row.name));
}

export function rowsIn(own: Kysely<OwnTables>): ReturnType<typeof rowQueries> {
  return rowQueries(own, {
    named: (table) => sql`${sql.id(table)}`,
    tableNames: () => tableNames(own),
    moment: (text) => sql`${text}`,
    place: 'rowid',
    momentText: (cell) => cell,
    isAmong: (text, texts) => sql`${text} IN (SELECT value FROM json_each(${JSON.stringify(texts)}))`,
    isUntimed: (text) => sql`coalesce(ltrim(${text}, '"'), '') NOT GLOB '[0-9]*'`,
    compared: (text) => text,
  });
}

/** Runs work in one transaction, under the lease if one is given. */
type Transact = <T>(lease: LeaseProof | undefined, work: () => T) => Promise<T>;

function transactions(db: Database, retryWhileLocked: RetryWhileLocked): Transact {
  const check = leaseCheck(db);
  return (lease, work) => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) check(lease);
      return work();
    });
    return retryWhileLocked(() => {
      // IMMEDIATE, because a read that turns into a write fails at once when another process has written in between.
      const result = transaction.immediate();
      lease?.committed();
      return result;
    });
  };
}

const RENEW = `UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
  WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`;

/**
 * Returns what verifies and renews a lease inside the caller's transaction. That throws `lease_lost`, or
 * `warehouse_newer` if a newer version has migrated the tables.
 */
function leaseCheck(db: Database): (lease: LeaseProof) => void {
  const lastDone = db.prepare(`SELECT ${LAST_DONE}`).pluck();
  const renew = db.prepare(RENEW);
  return ({ name, token, fence, expiresAt, commits }) => {
    const newer = migratedMeanwhile(lastDone.get());
    if (newer !== null) throw newer;
    if (renew.run(expiresAt, name, token, fence, commits()).changes === 0) throw leaseLost(name);
  };
}

/** Runs statements inside the caller's transaction. */
function runStatements(prepare: Prepare, queries: readonly CompiledQuery[]): void {
  for (const { sql, parameters } of queries) prepare(sql).run(...parameters);
}
