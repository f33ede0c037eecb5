import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import type { Clock } from '../../../model/clock.ts';
import { SyncError } from '../../../model/errors.ts';
import type {
  DeliveryRow,
  Inbox,
  InboxFigures,
  InboxTables,
  Settlement,
  DeliveryState,
  InboxEffect,
  InboxEntry,
  NewDelivery,
} from '../../inbox.ts';
import { INBOX_MIGRATIONS } from '../../migrate.ts';
import type { TimestampText } from '../../own-tables.ts';
import { inboxViewer } from '../../reading.ts';
import { repetition, setApart, sizeOf, type Repetition } from '../../repetition.ts';
import { databaseError, isFull } from '../connection/errors.ts';
import { cleanFile, emptyLog } from '../connection/clean-file.ts';
import { cacheSize } from '../connection/cache-size.ts';
import { openFile, type OpenFile } from '../connection/open-file.ts';
import type { RetryWhileLocked } from '../connection/wait-for-lock.ts';

const PURGE = `DELETE FROM "_sync_deliveries" WHERE "seq" IN (SELECT "seq" FROM "_sync_deliveries"
  WHERE "state" <> 'waiting' AND "state" = ? AND "finished_at" < ? LIMIT ?)`;
const REPLAYED = `UPDATE "_sync_deliveries" SET "state" = 'waiting', "attempts" = 0, "due_at" = NULL,
  "finished_at" = NULL, "reason" = NULL, "events" = "events" + 1`;

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
  db.pragma(`cache_size = ${cacheSize()}`);
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 8388608');
}

function sqliteInbox({ db, own, retryWhileLocked, name, close }: OpenFile<InboxTables>, file: string): Inbox {
  const once = <T>(work: () => T): Promise<T> => onceOn(file, () => name.whileNamed(work));
  const read = inboxReader(db, file);
  const write = db.transaction(writeEntries(db));
  const purgeState = db.prepare(PURGE);
  const purge = db.transaction((before: { finished: TimestampText; dead: TimestampText }, limit: number): number => {
    const states = [
      ['done', before.finished],
      ['ignored', before.finished],
      ['dead', before.dead],
    ] as const;
    return states.reduce((gone, [state, moment]) => gone + purgeState.run(state, moment, limit).changes, 0);
  });
  const replay = db.transaction((deliveries: readonly number[] | 'dead') => replayed(db, deliveries));
  const erasure = erasures(db, retryWhileLocked);
  // IMMEDIATE, because a read that turns into a write fails at once when somebody else has written in between.
  const settle = async (settlements: readonly Settlement[]): Promise<void> => {
    const entries = settlements.map((settlement) => ({ settlement }));
    await erasure.around(entries, () => retryWhileLocked(() => write.immediate(entries)));
  };
  return {
    ...inboxViewer(own, close),
    waiting: (...asked) => retryWhileLocked(() => read.waiting(...asked)),
    settle,
    write: (entries) => erasure.around(entries, () => once(() => withRoom(db, () => write.immediate(entries)))),
    purge: (before, limit) => once(() => purge.immediate(before, limit)),
    figures: async () => {
      await erasure.finish();
      return once(() => read.figures());
    },
    replay: (deliveries) => retryWhileLocked(() => replay.immediate(deliveries)),
    nameState: () => name.state(),
    clean: () => cleanFile(db, retryWhileLocked),
  };
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

/** Those that are named, whatever became of them, or all that are dead. */
function replayed(db: Database, deliveries: readonly number[] | 'dead'): number {
  if (deliveries === 'dead') {
    return db.prepare(`${REPLAYED} WHERE "state" = 'dead' AND "state" <> 'waiting'`).run().changes;
  }
  const one = db.prepare(`${REPLAYED} WHERE "seq" = ?`);
  return deliveries.reduce((count, seq) => count + one.run(seq).changes, 0);
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

const WAITING = `SELECT * FROM "_sync_deliveries"
  WHERE "state" = 'waiting' AND "seq" > ? AND ("due_at" IS NULL OR "due_at" <= ?) ORDER BY "seq" LIMIT ?`;
/** All are answered by an index alone. `state <> 'waiting'` tells SQLite that it may use the second one. */
const COUNTS = `SELECT count(*) AS "waiting", coalesce(sum("size"), 0) AS "waitingBytes", min("received_at") AS "oldest",
  (SELECT count(*) FROM "_sync_deliveries" WHERE "state" = 'dead' AND "state" <> 'waiting') AS "dead",
  (SELECT count(*) FROM "_sync_deliveries" WHERE "differs_from" IS NOT NULL) AS "different"
  FROM "_sync_deliveries" WHERE "state" = 'waiting'`;

/** Queries that each database answers in its own way, through statements that are compiled once. */
function inboxReader(db: Database, file: string) {
  const waiting = db.prepare<[number, string, number], DeliveryRow>(WAITING);
  const counts = db.prepare<[], Omit<InboxFigures, 'bytes' | 'walBytes'>>(COUNTS);
  return {
    waiting: (after: number, now: TimestampText, limit: number): DeliveryRow[] => waiting.all(after, now, limit),
    figures: (): InboxFigures => {
      const counted = counts.get();
      if (counted === undefined) throw new Error('a count without a row');
      return { ...counted, bytes: fileBytes(file), walBytes: fileBytes(`${file}-wal`) };
    },
  };
}

function fileBytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

const INSERT = `INSERT INTO "_sync_deliveries"
  ("delivery_id", "received_at", "headers", "body", "size", "differs_from") VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT ("delivery_id") DO NOTHING`;
const FIND = `SELECT "seq", "state", "body" = ? AS "isSame" FROM "_sync_deliveries" WHERE "delivery_id" = ?`;
const COUNT = 'UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1 WHERE "seq" = ?';
const COUNT_EVENT = 'UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1, "events" = "events" + 1 WHERE "seq" = ?';
const WAIT_AGAIN = `UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1, "events" = "events" + 1,
  "state" = 'waiting', "attempts" = 0, "due_at" = NULL, "finished_at" = NULL,
  "received_at" = ?, "headers" = ?, "body" = ?, "size" = ? WHERE "seq" = ?`;
const ERASE = `UPDATE "_sync_deliveries" SET "body" = x'', "headers" = '{}', "size" = 0, "record_id" = NULL,
  "delivery_id" = 'erased-' || "seq", "differs_from" = NULL WHERE "seq" = ?`;
const SETTLE = `UPDATE "_sync_deliveries" SET "state" = ?, "attempts" = ?, "due_at" = ?, "finished_at" = ?,
  "reason" = ?, "kind" = ?, "resource" = ?, "record_id" = ? WHERE "seq" = ? AND "events" = coalesce(?, "events")`;

/** Writes entries, through statements that are compiled once. Inside the caller's transaction. */
function writeEntries(db: Database): (entries: readonly InboxEntry[]) => InboxEffect[] {
  const insert = db.prepare(INSERT);
  const find = db.prepare<[Uint8Array, string], { seq: number; state: DeliveryState; isSame: 0 | 1 }>(FIND);
  const settleRow = db.prepare(SETTLE);
  const erase = db.prepare(ERASE);
  const [count, countEvent, waitAgain] = [db.prepare(COUNT), db.prepare(COUNT_EVENT), db.prepare(WAIT_AGAIN)];
  const repeat: Readonly<Record<Repetition, (seq: number, delivery: NewDelivery) => InboxEffect>> = {
    count: (seq) => (count.run(seq), 'repeat'),
    countEvent: (seq) => (countEvent.run(seq), 'repeat'),
    waitAgain: (seq, delivery) => {
      const { received_at, headers, body } = delivery;
      waitAgain.run(received_at, headers, body, sizeOf(delivery), seq);
      return 'again';
    },
  };

  function store(delivery: NewDelivery): InboxEffect {
    const { delivery_id, received_at, headers, body, differs_from = null } = delivery;
    const inserted = insert.run(delivery_id, received_at, headers, body, sizeOf(delivery), differs_from);
    if (inserted.changes > 0) return differs_from === null ? 'new' : 'different';
    const earlier = find.get(body, delivery_id);
    if (earlier === undefined) throw new Error('a delivery that is there and is not');
    if (delivery.is_id_sent && earlier.isSame === 0) return store(setApart(delivery));
    return repeat[repetition(earlier.state, delivery.is_id_sent)](earlier.seq, delivery);
  }

  function settle(to: Settlement): InboxEffect {
    const values = [to.state, to.attempts, to.due_at, to.finished_at, to.reason, to.kind, to.resource, to.record_id];
    const isSettled = settleRow.run(...values, to.seq, to.readEvents).changes > 0;
    if (isSettled && to.erases === true) erase.run(to.seq);
    return isSettled ? 'settled' : 'overtaken';
  }

  return (entries) => entries.map((entry) => ('delivery' in entry ? store(entry.delivery) : settle(entry.settlement)));
}
