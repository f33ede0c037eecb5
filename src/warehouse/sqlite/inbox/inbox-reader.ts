import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import type { DeliveryFilter, DeliveryRow, InboxFigures } from '../../inbox.ts';
import type { TimestampText } from '../../own-tables.ts';

const WAITING = `SELECT * FROM "_sync_deliveries"
  WHERE "state" = 'waiting' AND "seq" > ? AND ("due_at" IS NULL OR "due_at" <= ?) ORDER BY "seq" LIMIT ?`;
/** All are answered by an index alone. `state <> 'waiting'` tells SQLite that it may use the second one. */
const COUNTS = `SELECT count(*) AS "waiting", coalesce(sum("size"), 0) AS "waitingBytes", min("received_at") AS "oldest",
  (SELECT count(*) FROM "_sync_deliveries" WHERE "state" = 'dead' AND "state" <> 'waiting') AS "dead",
  (SELECT count(*) FROM "_sync_deliveries" WHERE "differs_from" IS NOT NULL) AS "different"
  FROM "_sync_deliveries" WHERE "state" = 'waiting'`;
const LIST = 'SELECT * FROM "_sync_deliveries" WHERE "state" = coalesce(?, "state") ORDER BY "seq" DESC LIMIT ?';
const BY_SEQ = 'SELECT * FROM "_sync_deliveries" WHERE "seq" = ?';
const BY_ID = 'SELECT * FROM "_sync_deliveries" WHERE "delivery_id" = ?';

/** The questions that are asked of an inbox, through statements that are compiled once. */
export interface InboxReader {
  waiting(after: number, now: TimestampText, limit: number): DeliveryRow[];
  figures(): InboxFigures;
  list(filter: DeliveryFilter): DeliveryRow[];
  get(delivery: number | string): DeliveryRow | null;
}

export function inboxReader(db: Database, file: string): InboxReader {
  const waiting = db.prepare<[number, string, number], DeliveryRow>(WAITING);
  const counts = db.prepare<[], Omit<InboxFigures, 'bytes' | 'walBytes'>>(COUNTS);
  const list = db.prepare<[string | null, number], DeliveryRow>(LIST);
  const bySeq = db.prepare<[number], DeliveryRow>(BY_SEQ);
  const byId = db.prepare<[string], DeliveryRow>(BY_ID);
  return {
    waiting: (after, now, limit) => waiting.all(after, now, limit),
    figures: () => {
      const counted = counts.get();
      if (counted === undefined) throw new Error('a count without a row');
      return { ...counted, bytes: sizeOf(file), walBytes: sizeOf(`${file}-wal`) };
    },
    list: ({ state = null, limit }) => list.all(state, limit),
    get: (delivery) => (typeof delivery === 'number' ? bySeq.get(delivery) : byId.get(delivery)) ?? null,
  };
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
