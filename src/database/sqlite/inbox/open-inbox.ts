import type { Database } from 'better-sqlite3';
import type { CompiledQuery, Kysely } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import { SyncError } from '../../../model/errors.ts';
import {
  countDeliveries,
  type Inbox,
  type InboxEffect,
  type InboxEntry,
  inboxQueries,
  type InboxTables,
  inboxViewer,
  replayStatement,
  writeEntries,
} from '../../inbox.ts';
import { INBOX_MIGRATIONS } from '../../migrate.ts';
import { databaseError, isFull } from '../connection/errors.ts';
import { CACHE_SIZE_KIB, cleanFile, emptyLog, openFile, type OpenFile } from '../connection/open-file.ts';

/** Opens (and creates, and migrates) an inbox file. Throws `ConfigError` if it cannot be used. */
export async function openInbox(file: string, clock: Clock): Promise<Inbox> {
  return sqliteInbox(await openInboxFile(file, clock), file);
}

/** The file itself, configured so that commits survive a power cut. */
export function openInboxFile(file: string, clock: Clock): Promise<OpenFile<InboxTables>> {
  return openFile<InboxTables>(file, clock, { migrations: INBOX_MIGRATIONS, configure });
}

function configure(db: Database): void {
  db.pragma('journal_mode = WAL');
  // This build of SQLite falls back to NORMAL with the first write to a log, which a power cut may lose.
  db.pragma('synchronous = FULL');
  db.pragma(`cache_size = -${CACHE_SIZE_KIB}`);
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 8388608');
}

function sqliteInbox(open: OpenFile<InboxTables>, file: string): Inbox {
  const { db, own, retryWhileLocked, name, close } = open;
  const write = db.transaction((entries: readonly InboxEntry[]) => runEntries(db, own, entries));
  const replay = db.transaction(
    (query: CompiledQuery): number => db.prepare(query.sql).all(...query.parameters).length,
  );
  const writeOnce = async (entries: readonly InboxEntry[]): Promise<InboxEffect[]> => {
    try {
      return await name.whileNamed(() => withRoom(db, () => write.immediate(entries)));
    } catch (error) {
      // A closed database, or a bug: waiting does not help.
      if (error instanceof TypeError) {
        throw new SyncError('inbox_closed', error.message, { recovery: 'stop', cause: error });
      }
      throw databaseError(error, file);
    }
  };
  const erasure = erasures(open);
  return {
    ...inboxViewer(own, close),
    ...inboxQueries(own),
    // IMMEDIATE, because a read that turns into a write fails at once if another process has written in between.
    settle: async (settlements) => {
      const entries = settlements.map((settlement) => ({ settlement }));
      await erasure.around(entries, () => retryWhileLocked(() => write.immediate(entries)));
    },
    write: (entries) => erasure.around(entries, () => writeOnce(entries)),
    figures: async () => {
      await erasure.finish();
      return countDeliveries(own);
    },
    replay: async (deliveries) =>
      deliveries.length === 0 ? 0 : retryWhileLocked(() => replay.immediate(replayStatement(own, deliveries))),
    clean: () => cleanFile(open),
  };
}

/** Runs within the caller's transaction. */
function runEntries(db: Database, own: Kysely<InboxTables>, entries: readonly InboxEntry[]): InboxEffect[] {
  const statements = writeEntries(own, entries);
  let step = statements.next();
  while (step.done !== true) {
    const rows = step.value.map(({ sql, parameters }) => {
      const statement = db.prepare<unknown[], Record<string, unknown>>(sql);
      if (statement.reader) return statement.all(...parameters);
      statement.run(...parameters);
      return [];
    });
    step = statements.next(rows);
  }
  return step.value;
}

/** Overwrites what entries erase: in the file at once, in the log as soon as no program reads it. */
function erasures(open: OpenFile<InboxTables>) {
  let isLogDirty = false;
  const finish = async (): Promise<void> => {
    if (isLogDirty) isLogDirty = !(await emptyLog(open));
  };
  return {
    finish,
    around: async <T>(entries: readonly InboxEntry[], work: () => Promise<T>): Promise<T> => {
      if (!entries.some((entry) => 'settlement' in entry && entry.settlement.erases === true)) return work();
      open.db.pragma('secure_delete = ON');
      try {
        const effects = await work();
        isLogDirty = true;
        await finish();
        return effects;
      } finally {
        open.db.pragma('secure_delete = OFF');
      }
    },
  };
}

/** If the disk is full, the log may still fit into the file: then it restarts, and the next attempt finds room in it. */
function withRoom<T>(db: Database, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (isFull(error)) db.pragma('wal_checkpoint');
    throw error;
  }
}
