import { sql, type Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { rowQueries } from '../reading.ts';
import type { Upkeep, Warehouse } from '../warehouse.ts';
import { cleanFile } from './connection/clean-file.ts';
import { openFile, type OpenFile } from './connection/open-file.ts';
import { readBeside } from './connection/read-beside.ts';
import { configureWarehouse } from './connection/configure.ts';
import { syncLog, truncateLargeWal } from './connection/wal-upkeep.ts';
import { purge, rewriteRows, softDelete } from './pages/row-writer.ts';
import { statementRunner } from './pages/run-statements.ts';
import { transactions, type Transact } from './pages/transactions.ts';
import { liveSample, storedRows } from './pages/stored-rows.ts';
import { createPageWriter } from './pages/write-page.ts';
import { tendIndexes } from './keys/tend-indexes.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { emptyBrokenViews } from './views/make-views.ts';
import { growOwnColumns, growTables } from './widening/grow-tables.ts';
import { stageTables, swapTables } from './widening/swap-tables.ts';

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(file: string, clock: Clock): Promise<Warehouse> {
  const kind = { migrations: WAREHOUSE_MIGRATIONS, configure: configureWarehouse };
  const opened = await openFile<OwnTables>(file, clock, kind);
  try {
    await opened.retryWhileLocked(() => growOwnColumns(opened.db, opened.own));
  } catch (error) {
    await opened.close();
    throw error;
  }
  return sqliteWarehouse(opened, clock);
}

/** The warehouse on an open and migrated database. */
function sqliteWarehouse(open: OpenFile<OwnTables>, clock: Clock): Warehouse {
  const { db, own, retryWhileLocked, name } = open;
  const stored = storedRows(db, own);
  const runAll = statementRunner(db);
  const transact = transactions(db, retryWhileLocked);
  const writePage = createPageWriter(db);
  // Skip if the file at this path was replaced.
  const upkeep = (): Upkeep => (name.state().is === 'named' ? truncateLargeWal(db) : { walBytes: 0 });

  return {
    ...rowsIn(own),
    own,
    dialect: VIEW_DIALECT,
    isOnNetwork: false,
    keepsMicroseconds: false,
    now: () => Promise.resolve(clock.now()),
    stored: (table, keys, updated) => retryWhileLocked(() => stored(table, keys, updated)),
    snapshot: () => retryWhileLocked(() => snapshotReader(readBeside(db.name))),
    ...tableChanges(open, transact, runAll),
    tendKeys: (plan, lease) => {
      const run = (text: string): Promise<void> => transact(lease(), () => void db.exec(text));
      return tendIndexes(db, plan, run, retryWhileLocked);
    },
    rewrite: (rewrite) =>
      transact(rewrite.lease, () => {
        rewriteRows(db, rewrite);
        runAll(rewrite.statements);
      }),
    commit: ({ rows, lease, statements }) =>
      transact(lease, () => {
        writePage(rows);
        runAll(statements);
      }),
    softDelete: (deletion) =>
      transact(deletion.lease, () => {
        const deleted = softDelete(db, own, deletion);
        runAll(deletion.statements);
        return deleted;
      }),
    purge: (old) => transact(old.lease, () => purge(db, own, old)),
    liveSample: (table, resource, limit) => retryWhileLocked(() => liveSample(db, own, table, resource, limit)),
    selectCount: (query) => retryWhileLocked(() => Number(db.prepare<[], bigint>(query).pluck().get())),
    apply: (queries, lease) => transact(lease, () => runAll(queries)),
    clean: () => cleanFile(db, retryWhileLocked),
    persist: () => syncLog(db.name),
    upkeep: () => {
      // Of many sources most are idle, and each would keep its cache.
      db.pragma('shrink_memory');
      return Promise.resolve(upkeep());
    },
    nameState: () => name.state(),
    close: async () => {
      // If another program has the file open too, closing does not copy what was written.
      upkeep();
      await open.close();
    },
  };
}

type TableMethods = Pick<Warehouse, 'evolve' | 'dropTables' | 'stageTables' | 'swapTables'>;

/** Makes, changes and drops tables, each with the views on them in one transaction. */
function tableChanges(
  { db, own }: OpenFile<OwnTables>,
  transact: Transact,
  runAll: ReturnType<typeof statementRunner>,
): TableMethods {
  return {
    evolve: (growth) =>
      transact(growth.lease, () => {
        growTables(db, own, growth);
        runAll(growth.statements);
        return [];
      }),
    dropTables: ({ lease, tables, views, statements }) =>
      transact(lease, () => {
        for (const table of tables) db.exec(`DROP TABLE IF EXISTS ${VIEW_DIALECT.id(table)}`);
        emptyBrokenViews(db, views);
        runAll(statements);
      }),
    stageTables: (staging) => transact(staging.lease, () => stageTables(db, own, staging)),
    swapTables: (swap) =>
      transact(swap.lease, () => {
        swapTables(db, own, swap);
        runAll(swap.statements);
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
    isUntimed: (text) => sql`coalesce(ltrim(${text}, '"'), '') NOT GLOB '[0-9]*'`,
    compared: (text) => text,
  });
}
