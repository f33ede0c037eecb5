import type { Session } from '../postgres/connection/session.ts';
import { execute, transact, type Database } from '../postgres/connection/transact.ts';
import { quoted, type CopiedTable } from './copied-tables.ts';

/** The record of what was copied from where; it stays beside the copy. */
export interface Receipt {
  /** The state of the source that it is a copy of, known by who has owned its resources. */
  fingerprint: string;
  /** UTC text; null while the copy is under way. */
  finishedAt: string | null;
  tables: ReceiptRow[];
}

export interface ReceiptRow {
  table: string;
  rows: number;
  /** SHA-256 over all its values; null before it was compared with the source. */
  digest: string | null;
}

/** How far a table has come. */
export interface Progress {
  /** JSON list of the last key's values as text; null before the first row. */
  doneUpTo: string | null;
  rows: number;
  isWhole: boolean;
}

const TABLES = [
  `CREATE TABLE IF NOT EXISTS "_sync_copy" ("fingerprint" text NOT NULL, "started_at" timestamptz NOT NULL,
    "finished_at" timestamptz)`,
  `CREATE TABLE IF NOT EXISTS "_sync_copy_tables" ("table_name" text PRIMARY KEY, "done_up_to" text,
    "rows" bigint NOT NULL, "is_whole" boolean NOT NULL, "digest" text)`,
];
/** Tables that an emptied staging schema keeps: the migrations done, and its owner. */
const KEPT = /^_sync_(?:inbox_)?migrations|^_sync_leases$/;

export async function readReceipt(database: Database): Promise<Receipt> {
  const ask = execute(database);
  const schema = quoted(database.schema);
  const { rows } = await ask<Omit<Receipt, 'tables'>>(
    `SELECT "fingerprint", "finished_at" AS "finishedAt" FROM ${schema}."_sync_copy"`,
  );
  const tables = await ask<ReceiptRow>(
    `SELECT "table_name" AS "table", "rows", "digest" FROM ${schema}."_sync_copy_tables" ORDER BY 1`,
  );
  return { fingerprint: '', finishedAt: null, ...rows[0], tables: tables.rows };
}

/**
 * Goes on with a copy of the source as it stood at `before`, or begins anew if what is here is none; from now on the
 * source's state is `now`. Returns true if it goes on. To be called by the one who owns the staging schema.
 */
export async function resumeOrBegin(database: Database, before: string, now: string): Promise<boolean> {
  return transact(database, async (session) => {
    for (const statement of TABLES) await session.execute(statement);
    const { rows } = await session.execute<{ fingerprint: string }>('SELECT "fingerprint" FROM "_sync_copy"');
    const isSame = rows[0]?.fingerprint === before;
    if (!isSame) await empty(session, database.schema);
    await session.execute('DELETE FROM "_sync_copy"');
    await session.execute(`INSERT INTO "_sync_copy" VALUES ($1, now())`, [now]);
    return isSame;
  });
}

/** Takes away what was copied: our own tables stay, without rows. */
async function empty({ execute: run }: Session, schema: string): Promise<void> {
  const { rows } = await run<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relkind = 'r'
      AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`,
    [schema],
  );
  for (const { name } of rows.filter((row) => !KEPT.test(row.name))) {
    await run(name.startsWith('_sync_') ? `TRUNCATE ${quoted(name)}` : `DROP TABLE ${quoted(name)} CASCADE`);
  }
}

export async function readProgress(database: Database, table: string): Promise<Progress | null> {
  const { rows } = await execute(database)<Progress>(
    `SELECT "done_up_to" AS "doneUpTo", "rows", "is_whole" AS "isWhole"
      FROM ${quoted(database.schema)}."_sync_copy_tables" WHERE "table_name" = $1`,
    [table],
  );
  return rows[0] ?? null;
}

/** Belongs into the transaction of the rows. */
export async function saveProgress({ execute: run }: Session, table: string, progress: Progress): Promise<void> {
  await run(
    `INSERT INTO "_sync_copy_tables" VALUES ($1, $2, $3, $4) ON CONFLICT ("table_name")
      DO UPDATE SET "done_up_to" = excluded."done_up_to", "rows" = excluded."rows", "is_whole" = excluded."is_whole"`,
    [table, progress.doneUpTo, progress.rows, progress.isWhole],
  );
}

/** Takes a table's rows away, so that it is copied from its beginning. */
export async function forgetTable(database: Database, { name }: CopiedTable): Promise<void> {
  await transact(database, async ({ execute: run }) => {
    await run(`TRUNCATE ${quoted(name)}`);
    await run('DELETE FROM "_sync_copy_tables" WHERE "table_name" = $1', [name]);
  });
}

export async function saveDigest(database: Database, table: string, digest: string): Promise<void> {
  await execute(database)(
    `UPDATE ${quoted(database.schema)}."_sync_copy_tables" SET "digest" = $2 WHERE "table_name" = $1`,
    [table, digest],
  );
}
