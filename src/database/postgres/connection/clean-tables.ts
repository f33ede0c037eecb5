import { escapeIdentifier as quoted } from 'pg';
import { onlyRow } from './session.ts';
import { type Database, execute } from './transact.ts';

const VACUUM_TIMEOUT_MS = 6 * 3_600_000;
/** Tables up to this size are rewritten, which blocks their readers for a second; of larger ones only dead rows are removed. */
const MAX_REWRITTEN_BYTES = 64 * 1_048_576;
const MAX_ATTEMPTS = 5;
const PAUSE_MS = 300;
/** How long to wait for transactions that still see deleted rows. */
const READERS_TIMEOUT_MS = 10_000;

/**
 * Removes dead rows, TOAST and statistics. Small tables are rewritten, so that no page keeps deleted data. Returns false
 * while another transaction still sees deleted rows.
 */
export async function cleanTables(database: Database, tables: readonly string[]): Promise<boolean> {
  const isUnseen = await waitForOlderTransactions(database);
  for (const table of tables) await cleanTable(database, `${quoted(database.schema)}.${quoted(table)}`);
  return isUnseen;
}

async function cleanTable(database: Database, table: string): Promise<void> {
  const run = execute(database, { statementMs: VACUUM_TIMEOUT_MS });
  const readState = async (): Promise<{ bytes: number; file: number | null }> =>
    onlyRow(
      await run<{ bytes: number; file: number | null }>(
        'SELECT pg_total_relation_size(to_regclass($1))::bigint AS "bytes", pg_relation_filenode(to_regclass($1))::bigint AS "file"',
        [table],
      ),
    );
  const before = await readState();
  if (before.file === null) return;
  for (let attempt = before.bytes > MAX_REWRITTEN_BYTES ? MAX_ATTEMPTS : 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    // A locked table is skipped, so that nobody waits; a rewritten table has another file.
    await run(`VACUUM (FULL, SKIP_LOCKED, ANALYZE) ${table}`);
    if ((await readState()).file !== before.file) return;
    await database.clock.sleep(PAUSE_MS);
  }
  await run(`VACUUM (ANALYZE) ${table}`);
}

/** `$1` is the next transaction id at the start. A write in another database of the server also holds back snapshots. */
const OLDER_TRANSACTIONS = `SELECT count(*)::int + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint < $1::text::bigint)::int AS "n"
  FROM pg_stat_activity WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()
  AND "backend_xmin" IS NOT NULL AND age("backend_xmin") > age(($1::text::bigint % 4294967296)::text::xid)`;

/** Returns false if some of them are still running after the timeout. */
async function waitForOlderTransactions(database: Database): Promise<boolean> {
  const { clock } = database;
  const run = execute(database);
  const { next } = onlyRow(await run<{ next: string }>('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS "next"'));
  const deadline = clock.monotonic() + READERS_TIMEOUT_MS;
  for (;;) {
    if (onlyRow(await run<{ n: number }>(OLDER_TRANSACTIONS, [next])).n === 0) return true;
    if (clock.monotonic() >= deadline) return false;
    await clock.sleep(PAUSE_MS);
  }
}
