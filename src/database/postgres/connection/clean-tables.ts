import { escapeIdentifier } from 'pg';
import { onlyRow } from './session.ts';
import { execute, type Database } from './transact.ts';

/** A big table takes its time; nobody waits for it. */
const VACUUM_MS = 6 * 3_600_000;
/** Up to here a table is written anew, which takes its readers a second; beyond, its dead rows are only taken away. */
const MOST_BYTES_ANEW = 64 * 1_048_576;
const ATTEMPTS = 5;
const PAUSE_MS = 300;
/** For transactions of others that still see what was deleted. */
const READERS_MS = 10_000;

/**
 * Takes dead rows out of tables, their TOAST included, and what statistics say of them. Small tables are written anew,
 * so that not even their pages hold any rest. Returns false while a transaction of somebody else still sees what was
 * deleted.
 */
export async function cleanTables(database: Database, tables: readonly string[]): Promise<boolean> {
  const isUnseen = await untilUnseen(database);
  for (const table of tables)
    await cleanTable(database, `${escapeIdentifier(database.schema)}.${escapeIdentifier(table)}`);
  return isUnseen;
}

async function cleanTable(database: Database, table: string): Promise<void> {
  const run = execute(database, { statementMs: VACUUM_MS });
  const state = async (): Promise<{ bytes: number; file: number | null }> => {
    const about = `SELECT pg_total_relation_size(to_regclass($1))::bigint AS "bytes",
      pg_relation_filenode(to_regclass($1))::bigint AS "file"`;
    return onlyRow(await run<{ bytes: number; file: number | null }>(about, [table]));
  };
  const before = await state();
  if (before.file === null) return;
  for (let left = before.bytes > MOST_BYTES_ANEW ? 0 : ATTEMPTS; left > 0; left -= 1) {
    // Waits for nobody: who reads it at this moment is left alone.
    await run(`VACUUM (FULL, SKIP_LOCKED, ANALYZE) ${table}`);
    if ((await state()).file !== before.file) return;
    await database.clock.sleep(PAUSE_MS);
  }
  await run(`VACUUM (ANALYZE) ${table}`);
}

/**
 * Waits for transactions that began before now; false if some are still there. Also for those that write in other
 * databases of the server: while one of them is under way, every new snapshot is as old as it.
 */
async function untilUnseen({ clock, ...rest }: Database): Promise<boolean> {
  const run = execute({ clock, ...rest });
  const { now } = onlyRow(await run<{ now: string }>('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS "now"'));
  const older = `SELECT count(*)::int + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint < $1::text::bigint)::int AS "n"
    FROM pg_stat_activity WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()
    AND "backend_xmin" IS NOT NULL AND age("backend_xmin") > age(($1::text::bigint % 4294967296)::text::xid)`;
  const until = clock.monotonic() + READERS_MS;
  for (;;) {
    const { n } = onlyRow(await run<{ n: number }>(older, [now]));
    if (n === 0) return true;
    if (clock.monotonic() >= until) return false;
    await clock.sleep(PAUSE_MS);
  }
}
