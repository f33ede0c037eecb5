import type { Database } from 'better-sqlite3';
import type { CompiledQuery, Kysely } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import { SyncError } from '../../../model/errors.ts';
import { countDeliveries, inboxQueries, inboxViewer, replayStatement, writeEntries } from '../../inbox-queries.ts';
import type { Inbox, InboxEffect, InboxEntry, InboxTables } from '../../inbox.ts';
import { INBOX_MIGRATIONS } from '../../migrate.ts';
import { CACHE_SIZE } from '../connection/configure.ts';
import { databaseError, isFull } from '../connection/errors.ts';
import { openFile, type OpenFile } from '../connection/open-file.ts';
import type { RetryWhileLocked } from '../connection/wait-for-lock.ts';
import { cleanFile, emptyLog } from '../connection/wal-upkeep.ts';

/** Opens (and makes, and migrates) an inbox file. Throws `ConfigError` where it cannot be used. */
export async function openInbox(file: string, clock: Clock): Promise<Inbox> {
  return sqliteInbox(await openInboxFile(file, clock), file);
}

/** The file itself, set up so that what was committed stays through a power cut. */
export function openInboxFile(file: string, clock: Clock): Promise<OpenFile<InboxTables>> {
  return openFile<InboxTables>(file, clock, { migrations: INBOX_MIGRATIONS, configure });
}

function configure(db: Database): void {
  db.pragma('journal_mode = WAL');
  // Explicitly: this SQLite is built to fall back to NORMAL with the first write to a log, and then a 2xx would not be
  // worth more than the operating system's memory.
  db.pragma('synchronous = FULL');
  db.pragma(`cache_size = ${CACHE_SIZE}`);
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 8388608');
}

function sqliteInbox({ db, own, retryWhileLocked, name, close }: OpenFile<InboxTables>, file: string): Inbox {
  const once = <T>(work: () => T): Promise<T> => onceOn(file, () => name.whileNamed(work));
  const write = db.transaction((entries: readonly InboxEntry[]) => runEntries(db, own, entries));
  const replay = db.transaction(
    (query: CompiledQuery): number => db.prepare(query.sql).all(...query.parameters).length,
  );
  const erasure = erasures(db, retryWhileLocked);
  return {
    ...inboxViewer(own, close),
    ...inboxQueries(own),
    // IMMEDIATE, because a read that turns into a write fails at once when another process has written in between.
    settle: async (settlements) => {
      const entries = settlements.map((settlement) => ({ settlement }));
      await erasure.around(entries, () => retryWhileLocked(() => write.immediate(entries)));
    },
    write: (entries) => erasure.around(entries, () => once(() => withRoom(db, () => write.immediate(entries)))),
    figures: async () => {
      await erasure.finish();
      return countDeliveries(own);
    },
    replay: async (deliveries) =>
      deliveries.length === 0 ? 0 : retryWhileLocked(() => replay.immediate(replayStatement(own, deliveries))),
    clean: () => cleanFile(db, retryWhileLocked),
  };
}

/** Inside the caller's transaction. */
function runEntries(db: Database, own: Kysely<InboxTables>, entries: readonly InboxEntry[]): InboxEffect[] {
  const steps = writeEntries(own, entries);
  let step = steps.next();
  while (step.done !== true) {
    const { sql, parameters } = step.value;
    step = steps.next(db.prepare<unknown[], Record<string, unknown>>(sql).all(...parameters));
  }
  return step.value;
}

/** Has what entries erase overwritten, in the file at once and in the log as soon as nobody reads from it. */
function erasures(db: Database, retryWhileLocked: RetryWhileLocked) {
  let isLeft = false;
  const finish = async (): Promise<void> => {
    if (isLeft) isLeft = !(await emptyLog(db, retryWhileLocked));
  };
  return {
    finish,
    around: async <T>(entries: readonly InboxEntry[], work: () => Promise<T>): Promise<T> => {
      if (!entries.some((entry) => 'settlement' in entry && entry.settlement.erases === true)) return work();
      db.pragma('secure_delete = ON');
      try {
        const effects = await work();
        isLeft = true;
        await finish();
        return effects;
      } finally {
        db.pragma('secure_delete = OFF');
      }
    },
  };
}

/**
 * Where the disk is full, what stands in the log may still have its place in the file: the log is then begun anew, so
 * that the next attempt finds room in it.
 */
function withRoom<T>(db: Database, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (isFull(error)) db.pragma('wal_checkpoint');
    throw error;
  }
}

/** One attempt. */
async function onceOn<T>(file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asSyncError(databaseError(error, file));
  }
}

/** A closed database, or a bug: nothing that waiting helps. */
function asSyncError(error: unknown): unknown {
  return error instanceof TypeError
    ? new SyncError('inbox_closed', error.message, { recovery: 'stop', cause: error })
    : error;
}
