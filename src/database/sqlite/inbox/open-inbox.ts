// The inbox of webhook deliveries in a SQLite file, which is separate from the copy: a delivery is stored within
// milliseconds even while a scan writes pages. `database/inbox.ts` has the statements.
import type { Database } from 'better-sqlite3';
import type { CompiledQuery } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import { SyncError } from '../../../model/errors.ts';
import {
  countDeliveries,
  type Inbox,
  type InboxEffect,
  inboxQueries,
  type InboxTables,
  type NewDelivery,
  replayStatement,
  updateStatements,
  writeDeliveries,
} from '../../inbox.ts';
import { INBOX_MIGRATIONS } from '../../migrate.ts';
import { databaseError, isFull } from '../connection/errors.ts';
import { CACHE_SIZE_KIB, cleanFile, emptyLog, openFile, type OpenFile, runStatement } from '../connection/open-file.ts';

/** Opens (and creates, and migrates) an inbox file. Throws `ConfigError` if it cannot be used. */
export async function openInbox(file: string, clock: Clock): Promise<Inbox> {
  return sqliteInbox(await openInboxFile(file, clock), file);
}

/** Opens the file, configured so that commits survive a power cut. */
export function openInboxFile(file: string, clock: Clock): Promise<OpenFile<InboxTables>> {
  return openFile<InboxTables>(file, clock, { migrations: INBOX_MIGRATIONS, configure });
}

function configure(db: Database): void {
  db.pragma('journal_mode = WAL');
  // With NORMAL, the default of this build of SQLite for a file with a log, a power cut may lose the last commits.
  db.pragma('synchronous = FULL');
  db.pragma(`cache_size = -${CACHE_SIZE_KIB}`);
  db.pragma('temp_store = MEMORY');
  // Deleted data is overwritten with zeros, so that erased deliveries cannot be found in the file.
  db.pragma('secure_delete = ON');
  db.pragma('journal_size_limit = 8388608');
}

function sqliteInbox(open: OpenFile<InboxTables>, file: string): Inbox {
  const { db, own, retryWhileLocked, name, close } = open;
  const run = (query: CompiledQuery) => runStatement(db, query).rows;
  const write = db.transaction((deliveries: readonly NewDelivery[]): InboxEffect[] => {
    const statements = writeDeliveries(own, deliveries);
    let step = statements.next();
    while (step.done !== true) step = statements.next(run(step.value));
    return step.value;
  });
  const runAll = db.transaction((queries: readonly CompiledQuery[]) => queries.flatMap(run).length);
  const translateErrors = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // A closed database, or a bug: waiting does not help.
      if (error instanceof TypeError) {
        throw new SyncError('warehouse_gone', error.message, { recovery: 'stop', cause: error });
      }
      throw databaseError(error, file);
    }
  };
  /** True while the log still has erased deliveries, because a reader was using it. */
  let isLogDirty = false;
  return {
    ...inboxQueries(own, close),
    // IMMEDIATE, because a read that turns into a write fails at once if another process has written in between.
    write: (deliveries) =>
      translateErrors(() => name.runBetweenChecks(() => makeRoomIfFull(db, () => write.immediate(deliveries)))),
    settle: async (updates) => {
      const statements = updateStatements(own, updates);
      await translateErrors(() => retryWhileLocked(() => makeRoomIfFull(db, () => runAll.immediate(statements))));
      if (updates.some(({ erases }) => erases)) isLogDirty = !(await emptyLog(open));
    },
    figures: async () => {
      if (isLogDirty) isLogDirty = !(await emptyLog(open));
      return countDeliveries(own);
    },
    replay: async (deliveries) =>
      deliveries.length === 0 ? 0 : retryWhileLocked(() => runAll.immediate([replayStatement(own, deliveries)])),
    clean: () => cleanFile(open),
  };
}

/** If the disk is full, moves the log into free pages of the database file: the next attempt then writes over the log. */
function makeRoomIfFull<T>(db: Database, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (isFull(error)) db.pragma('wal_checkpoint');
    throw error;
  }
}
