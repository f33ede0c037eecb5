import type { Database, Statement } from 'better-sqlite3';
import { sql, type CompiledQuery, type Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { LAST_DONE, migratedMeanwhile, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { LeaseProof, Upkeep, Warehouse } from '../warehouse.ts';
import { softDelete, keysAfter, liveSample, purge } from './pages/soft-delete.ts';
import { NUMBER_TEXT } from './widening/ddl.ts';
import { growTables } from './widening/grow-tables.ts';
import { createPageWriter } from './pages/page-writer.ts';
import { rewriteRows } from './pages/row-rewriter.ts';
import { countUntimed, latestKeys } from './pages/row-times.ts';
import { storedRows } from './pages/stored-rows.ts';
import { openFile, type OpenFile } from './connection/open-file.ts';
import { syncLog } from './connection/sync-log.ts';
import type { RetryWhileLocked } from './connection/wait-for-lock.ts';
import { walUpkeep } from './connection/wal-upkeep.ts';

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` if it cannot be used. */
export async function openWarehouse(file: string, clock: Clock): Promise<Warehouse> {
  const kind = { migrations: WAREHOUSE_MIGRATIONS, configure };
  return sqliteWarehouse(await openFile<OwnTables>(file, clock, kind), clock);
}

function configure(db: Database): void {
  // Larger pages make wide rows cheaper; they only take effect on a file that is still empty.
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  // A power cut may take the last pages, together with their checkpoint: they are fetched again.
  db.pragma('synchronous = NORMAL');
  db.pragma('cache_size = -8000');
  // Each multi-row insert keeps a journal of its own to undo it alone; in a file it costs more than the rows.
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 67108864');
  db.function(NUMBER_TEXT, { deterministic: true }, String);
}

/** The warehouse on an open and migrated database. */
function sqliteWarehouse(open: OpenFile<OwnTables>, clock: Clock): Warehouse {
  const { db, own, patiently, name } = open;
  const writePage = createPageWriter(db, own);
  const stored = storedRows(db, own);
  const runAll = statementRunner(db);
  const transact = transactions(db, patiently);
  const wal = walUpkeep(db);
  // By its path: that of another file is none of ours to fold back.
  const upkeep = (): Promise<Upkeep> => (name.state().is === 'named' ? wal.run() : Promise.resolve({ walBytes: 0 }));

  return {
    own,
    isOnNetwork: false,
    now: () => Promise.resolve(clock.now()),
    stored: (table, keys, updated) => patiently(() => stored(table, keys, updated)),
    tableNames: () => tableNames(own),
    holdsBeyondDouble: (table, column) => holdsBeyondDouble(own, table, column),
    evolve: (growth) =>
      transact(growth.lease, () => {
        growTables(db, own, growth);
        runAll(growth.statements);
      }),
    rewrite: (rewrite) =>
      transact(rewrite.lease, () => {
        rewriteRows(db, own, rewrite);
        runAll(rewrite.statements);
      }),
    // Rows are bound as they are.
    prepare: () => undefined,
    commit: (page) =>
      transact(page.lease, () => {
        writePage(page);
        runAll(page.statements);
      }),
    softDelete: (burial) =>
      transact(burial.lease, () => {
        const buried = softDelete(db, own, burial);
        runAll(burial.statements);
        return buried;
      }),
    purge: (old) => transact(old.lease, () => purge(db, own, old)),
    keysAfter: (table, after, limit) => patiently(() => keysAfter(db, own, table, after, limit)),
    liveSample: (table, resource, limit) => patiently(() => liveSample(db, own, table, resource, limit)),
    latestKeys: (table, column, limit) => latestKeys(own, table, column, limit),
    countUntimed: (table, column) => countUntimed(own, table, column),
    apply: (queries, lease) => transact(lease, () => runAll(queries)),
    count: (table) => count(own, table),
    countDeleted: (table, since) => countDeleted(own, table, since),
    persist: () => syncLog(db.name),
    upkeep,
    nameState: () => name.state(),
    close: async () => {
      // Where another program has the file open too, closing does not copy what was written.
      await upkeep();
      await open.close();
    },
  };
}

/** Runs work in one transaction, under the lease where one is given. */
function transactions(db: Database, patiently: RetryWhileLocked) {
  const [checkVersion, checkLease] = [versionChecker(db), leaseChecker(db)];
  return <T>(lease: LeaseProof | undefined, work: () => T): Promise<T> => {
    const transaction = db.transaction(() => {
      if (lease !== undefined) {
        checkVersion();
        checkLease(lease);
      }
      return work();
    });
    return patiently(() => {
      // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
      const result = transaction.immediate();
      lease?.committed();
      return result;
    });
  };
}

function statementRunner(db: Database): (queries: readonly CompiledQuery[]) => void {
  const statements = new Map<string, Statement>();
  return (queries) => {
    for (const query of queries) {
      let statement = statements.get(query.sql);
      if (statement === undefined) statements.set(query.sql, (statement = db.prepare(query.sql)));
      statement.run(...query.parameters);
    }
  };
}

/** Throws `warehouse_newer` where a newer version has migrated the tables meanwhile. */
function versionChecker(db: Database): () => void {
  const lastDone = db.prepare(`SELECT ${LAST_DONE}`).pluck();
  return () => {
    const fault = migratedMeanwhile(lastDone.get());
    if (fault !== null) throw fault;
  };
}

/** Throws `lease_lost` where somebody else owns the resource by now, or the file was set back. */
function leaseChecker(db: Database): (lease: LeaseProof) => void {
  const renew = db.prepare(`UPDATE "_sync_leases" SET "expires_at" = ?, "commits" = "commits" + 1
    WHERE "name" = ? AND "token" = ? AND "fence" = ? AND "commits" >= ?`);
  return ({ name, token, fence, expiresAt, commits }) => {
    if (renew.run(expiresAt, name, token, fence, commits()).changes > 0) return;
    throw new SyncError('lease_lost', `another process has taken over ${name}; nothing of this was written`, {
      recovery: 'stop',
      hint: 'let the other process finish: it goes on from the last committed page',
    });
  };
}

async function tableNames(own: Kysely<OwnTables>): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`SELECT lower("name") AS "name" FROM sqlite_schema`.execute(own);
  return new Set(rows.map((row) => row.name));
}

async function holdsBeyondDouble(own: Kysely<OwnTables>, table: string, column: string): Promise<boolean> {
  const [least, most] = [sql.lit(Number.MIN_SAFE_INTEGER), sql.lit(Number.MAX_SAFE_INTEGER)];
  const exact = sql`${sql.id(column)} BETWEEN ${least} AND ${most}`;
  const { rows } = await sql`SELECT 1 FROM ${sql.id(table)} WHERE NOT (${exact}) LIMIT 1`.execute(own);
  return rows.length > 0;
}

/** All rows less the deleted ones: both are counted in an index, where counting the live ones would read the table. */
export async function count(own: Kysely<OwnTables>, table: string): Promise<number> {
  if (!(await isThere(own, table))) return 0;
  const name = sql.id(table);
  const deleted = sql`SELECT count(*) FROM ${name} WHERE "_deleted_at" IS NOT NULL`;
  const { rows } = await sql<{ n: number }>`SELECT (SELECT count(*) FROM ${name}) - (${deleted}) AS n`.execute(own);
  return rows[0]?.n ?? 0;
}

export async function countDeleted(own: Kysely<OwnTables>, table: string, since: string): Promise<number> {
  if (!(await isThere(own, table))) return 0;
  const deleted = sql<{ n: number }>`SELECT count(*) AS n FROM ${sql.id(table)} WHERE "_deleted_at" >= ${since}`;
  const { rows } = await deleted.execute(own);
  return rows[0]?.n ?? 0;
}

async function isThere(own: Kysely<OwnTables>, table: string): Promise<boolean> {
  const { rows } = await sql`SELECT 1 FROM sqlite_schema WHERE "name" = ${table}`.execute(own);
  return rows.length > 0;
}
