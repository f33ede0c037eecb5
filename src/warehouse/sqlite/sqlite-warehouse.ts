import type { Database, Statement } from 'better-sqlite3';
import { sql, type CompiledQuery, type Kysely } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import type { TableShape } from '../../model/table.ts';
import type { OwnTables } from '../own-tables.ts';
import type { LeaseProof, StoredRow, Warehouse } from '../warehouse.ts';
import { growTables } from './grow-tables.ts';
import { createPageWriter } from './page-writer.ts';
import { rewriteRows } from './row-rewriter.ts';
import type { Patiently } from './wait-for-lock.ts';

/** The warehouse on an open and migrated database. */
export function sqliteWarehouse(db: Database, own: Kysely<OwnTables>, patiently: Patiently): Warehouse {
  const writer = createPageWriter(db, own);
  const lookups = new WeakMap<TableShape, { updated: string | null; statement: Statement }>();
  const statements = new Map<string, Statement>();

  function lookup(table: TableShape, updated: string | null): Statement {
    const known = lookups.get(table);
    if (known?.updated === updated) return known.statement;
    const statement = db.prepare(lookupText(own, table, updated)).raw();
    lookups.set(table, { updated, statement });
    return statement;
  }

  function runAll(queries: readonly CompiledQuery[]): void {
    for (const query of queries) {
      let statement = statements.get(query.sql);
      if (statement === undefined) statements.set(query.sql, (statement = db.prepare(query.sql)));
      statement.run(...query.parameters);
    }
  }

  /** One transaction, under the lease where one is given. */
  function transact(lease: LeaseProof | undefined, work: () => void): Promise<void> {
    const transaction = db.transaction(() => {
      if (lease !== undefined) checkLease(db, lease);
      work();
    });
    // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
    return patiently(() => transaction.immediate());
  }

  return {
    own,
    stored: (table, keys, updated) => patiently(() => readStored(lookup(table, updated), keys)),
    storedBody: async (resource, id, version) => {
      const row = await own
        .selectFrom('_sync_versions')
        .select('body')
        .where('resource', '=', resource)
        .where('id', '=', id)
        .where('version', '=', version)
        .executeTakeFirst();
      return row?.body ?? null;
    },
    tableNames: async () => {
      const { rows } = await sql<{ name: string }>`SELECT lower("name") AS "name" FROM sqlite_schema`.execute(own);
      return new Set(rows.map((row) => row.name));
    },
    holdsBeyondDouble: async (table, column) => {
      const exact = sql`${sql.id(column)} BETWEEN ${sql.lit(Number.MIN_SAFE_INTEGER)} AND ${sql.lit(Number.MAX_SAFE_INTEGER)}`;
      const { rows } = await sql`SELECT 1 FROM ${sql.id(table)} WHERE NOT ${exact} LIMIT 1`.execute(own);
      return rows.length > 0;
    },
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
    commit: (page) =>
      transact(page.lease, () => {
        writer.write(page);
        runAll(page.statements);
      }),
    apply: (queries, lease) => transact(lease, () => runAll(queries)),
    count: async (table) => {
      if (db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) === undefined) return 0;
      const { rows } = await sql<{ n: number }>`SELECT count(*) AS n FROM ${sql.id(table)}`.execute(own);
      return rows[0]?.n ?? 0;
    },
    close: () => own.destroy(),
  };
}

/** One read transaction around all lookups of a page: entering one costs as much as the lookup itself. */
function readStored(statement: Statement, keys: readonly string[]): Map<string, StoredRow> {
  const found = new Map<string, StoredRow>();
  const read = statement.database.transaction(() => {
    for (const key of keys) {
      const row = statement.get(key) as [string, number, string, StoredRow['updated']] | undefined;
      if (row !== undefined) found.set(key, { hash: row[0], version: row[1], syncedAt: row[2], updated: row[3] });
    }
  });
  read.deferred();
  return found;
}

function checkLease(db: Database, lease: LeaseProof): void {
  const { changes } = db
    .prepare('UPDATE "_sync_leases" SET "expires_at" = ? WHERE "name" = ? AND "token" = ?')
    .run(lease.expiresAt, lease.name, lease.token);
  if (changes === 0) {
    throw new SyncError('lease_lost', `another process has taken over ${lease.name}; nothing of this page was written`, {
      recovery: 'stop',
      hint: 'let the other process finish: it goes on from the last committed page',
    });
  }
}

function lookupText(own: Kysely<OwnTables>, table: TableShape, updated: string | null): string {
  const last = updated === null ? sql`NULL` : sql.id(updated);
  return sql`SELECT "_hash", "_version", "_synced_at", ${last} FROM ${sql.id(table.name)}
    WHERE ${sql.id(table.key[0] ?? '')} = ${sql.val('')}`.compile(own).sql;
}
