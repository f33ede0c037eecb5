import type { Database, Statement } from 'better-sqlite3';
import { sql, type Kysely, type CompiledQuery } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { WAREHOUSE_MIGRATIONS, LAST_DONE, migratedMeanwhile } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { rowQueries } from '../reading.ts';
import { type Upkeep, type Warehouse, leaseLost, type LeaseProof } from '../warehouse.ts';
import { cacheSize } from './connection/cache-size.ts';
import { cleanFile } from './connection/clean-file.ts';
import { openFile, type OpenFile } from './connection/open-file.ts';
import { readBeside } from './connection/read-beside.ts';
import type { RetryWhileLocked } from './connection/wait-for-lock.ts';
import { syncLog, walUpkeep } from './connection/wal-upkeep.ts';
import { createPageWriter, purge, rewriteRows, softDelete } from './pages/row-writer.ts';
import { liveSample, storedRows } from './pages/stored-rows.ts';
import { tendIndexes } from './keys/tend-indexes.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { emptyBrokenViews } from './views/make-views.ts';
import { NUMBER_TEXT } from './widening/ddl.ts';
import { growOwnColumns, growTables } from './widening/grow-tables.ts';
import { stageTables, swapTables } from './widening/swap-tables.ts';

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(file: string, clock: Clock): Promise<Warehouse> {
  const kind = { migrations: WAREHOUSE_MIGRATIONS, configure };
  const opened = await openFile<OwnTables>(file, clock, kind);
  try {
    await opened.retryWhileLocked(() => growOwnColumns(opened.db, opened.own));
  } catch (error) {
    await opened.close();
    throw error;
  }
  return sqliteWarehouse(opened, clock);
}

function configure(db: Database): void {
  // Larger pages make wide rows cheaper; they only take effect on a file that is still empty.
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  // A power cut may take the last pages, together with their checkpoint: they are fetched again.
  db.pragma('synchronous = NORMAL');
  db.pragma(`cache_size = ${cacheSize()}`);
  // Each multi-row insert keeps a journal of its own to undo it alone; in a file it costs more than the rows.
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 67108864');
  // Child rows come and go with their record in one transaction: to look each of them up would only cost.
  db.pragma('foreign_keys = OFF');
  db.function(NUMBER_TEXT, { deterministic: true }, String);
}

/** The warehouse on an open and migrated database. */
function sqliteWarehouse(open: OpenFile<OwnTables>, clock: Clock): Warehouse {
  const { db, own, retryWhileLocked, name } = open;
  const writePage = createPageWriter(db, own);
  const stored = storedRows(db, own);
  const runAll = statementRunner(db);
  const transact = transactions(db, retryWhileLocked);
  const foldWal = walUpkeep(db);
  // By its path: that of another file is none of ours to fold back.
  const upkeep = (): Promise<Upkeep> => (name.state().is === 'named' ? foldWal() : Promise.resolve({ walBytes: 0 }));

  return {
    ...rowsIn(own),
    own,
    dialect: VIEW_DIALECT,
    isOnNetwork: false,
    now: () => Promise.resolve(clock.now()),
    stored: (table, keys, updated) => retryWhileLocked(() => stored(table, keys, updated)),
    tableNames: () => tableNames(own),
    snapshot: () => retryWhileLocked(() => snapshotReader(readBeside(db.name))),
    ...tableChanges(open, transact, runAll),
    tendKeys: (plan, lease) => tendIndexes(db, plan, (text) => transact(lease(), () => void db.exec(text))),
    rewrite: (rewrite) =>
      transact(rewrite.lease, () => {
        rewriteRows(db, own, rewrite);
        runAll(rewrite.statements);
      }),
    // Rows are bound as they are.
    prepare: (rows) => ({ rows }),
    commit: ({ page, lease, statements }) =>
      transact(lease, () => {
        writePage(page.rows);
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
    apply: (queries, lease) => transact(lease, () => runAll(queries)),
    clean: () => cleanFile(db, retryWhileLocked),
    persist: () => syncLog(db.name),
    upkeep,
    nameState: () => name.state(),
    close: async () => {
      // If another program has the file open too, closing does not copy what was written.
      await upkeep();
      await open.close();
    },
  };
}

type TableMethods = Pick<Warehouse, 'evolve' | 'dropTables' | 'stageTables' | 'swapTables'>;

/** Makes, changes and drops tables, each with the views on them in one transaction. */
function tableChanges(
  { db, own }: OpenFile<OwnTables>,
  transact: ReturnType<typeof transactions>,
  runAll: ReturnType<typeof statementRunner>,
): TableMethods {
  return {
    evolve: (growth) =>
      transact(growth.lease, () => {
        growTables(db, own, growth);
        runAll(growth.statements);
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

async function tableNames(own: Kysely<OwnTables>): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("name") AS "name" FROM sqlite_schema`.execute(own);
  return new Set(rows.map((row) => row.name));
}

export function rowsIn(own: Kysely<OwnTables>): ReturnType<typeof rowQueries> {
  return rowQueries(own, {
    named: (table) => sql`${sql.id(table)}`,
    isThere: async (table) => {
      const { rows } = await sql`SELECT 1 FROM sqlite_schema WHERE "type" = 'table' AND "name" = ${table}`.execute(own);
      return rows.length > 0;
    },
    moment: (text) => sql`${text}`,
    isUntimed: (text) => sql`coalesce(ltrim(${text}, '"'), '') NOT GLOB '[0-9]*'`,
    compared: (text) => text,
  });
}

/** Returns what runs work in one transaction, under the lease if one is given. */
function transactions(db: Database, retryWhileLocked: RetryWhileLocked) {
  const lastDone = db.prepare(`SELECT ${LAST_DONE}`).pluck();
  const renew = db.prepare(`UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
    WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`);
  const check = ({ name, token, fence, expiresAt, commits }: LeaseProof): void => {
    const newer = migratedMeanwhile(lastDone.get());
    if (newer !== null) throw newer;
    if (renew.run(expiresAt, name, token, fence, commits()).changes === 0) throw leaseLost(name);
  };
  return <T>(lease: LeaseProof | undefined, work: () => T): Promise<T> => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) check(lease);
      return work();
    });
    return retryWhileLocked(() => {
      // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
      const result = transaction.immediate();
      lease?.committed();
      return result;
    });
  };
}

/**
 * Returns a function that runs statements inside the caller's transaction. Those with values are compiled once and kept;
 * one without any comes once, and may be long.
 */
function statementRunner(db: Database): (queries: readonly CompiledQuery[]) => void {
  const statements = new Map<string, Statement>();
  return (queries) => {
    for (const { sql: text, parameters } of queries) {
      const statement = statements.get(text) ?? db.prepare(text);
      if (parameters.length > 0) statements.set(text, statement);
      statement.run(...parameters);
    }
  };
}
