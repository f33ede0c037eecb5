import type { Database } from 'better-sqlite3';
import type { DeliveryState, InboxEffect, InboxEntry, Settlement, NewDelivery } from '../inbox.ts';
import { repetition, type Repetition } from '../repetition.ts';

const INSERT = `INSERT INTO "_sync_deliveries" ("delivery_id", "received_at", "headers", "body") VALUES (?, ?, ?, ?)
  ON CONFLICT ("delivery_id") DO NOTHING`;
const FIND = 'SELECT "seq", "state" FROM "_sync_deliveries" WHERE "delivery_id" = ?';
const COUNT = 'UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1 WHERE "seq" = ?';
const COUNT_EVENT = 'UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1, "events" = "events" + 1 WHERE "seq" = ?';
const WAIT_AGAIN = `UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1, "events" = "events" + 1,
  "state" = 'waiting', "attempts" = 0, "due_at" = NULL, "finished_at" = NULL,
  "received_at" = ?, "headers" = ?, "body" = ? WHERE "seq" = ?`;
const SETTLE = `UPDATE "_sync_deliveries" SET "state" = ?, "attempts" = ?, "due_at" = ?, "finished_at" = ?,
  "reason" = ?, "kind" = ?, "resource" = ?, "record_id" = ? WHERE "seq" = ? AND "events" = coalesce(?, "events")`;

/** Writes entries, through statements that are compiled once. Inside the caller's transaction. */
export function inboxWriter(db: Database): (entries: readonly InboxEntry[]) => InboxEffect[] {
  const insert = db.prepare(INSERT);
  const find = db.prepare<[string], { seq: number; state: DeliveryState }>(FIND);
  const settleRow = db.prepare(SETTLE);
  const [count, countEvent, waitAgain] = [db.prepare(COUNT), db.prepare(COUNT_EVENT), db.prepare(WAIT_AGAIN)];
  const repeat: Readonly<Record<Repetition, (seq: number, delivery: NewDelivery) => InboxEffect>> = {
    count: (seq) => (count.run(seq), 'repeat'),
    countEvent: (seq) => (countEvent.run(seq), 'repeat'),
    waitAgain: (seq, { received_at, headers, body }) => (waitAgain.run(received_at, headers, body, seq), 'again'),
  };

  function store(delivery: NewDelivery): InboxEffect {
    const { delivery_id, received_at, headers, body } = delivery;
    if (insert.run(delivery_id, received_at, headers, body).changes > 0) return 'new';
    const earlier = find.get(delivery_id);
    if (earlier === undefined) throw new Error('a delivery that is there and is not');
    return repeat[repetition(earlier.state, delivery.is_id_sent)](earlier.seq, delivery);
  }

  function settle(to: Settlement): InboxEffect {
    const values = [to.state, to.attempts, to.due_at, to.finished_at, to.reason, to.kind, to.resource, to.record_id];
    return settleRow.run(...values, to.seq, to.readEvents).changes > 0 ? 'settled' : 'overtaken';
  }

  return (entries) => entries.map((entry) => ('delivery' in entry ? store(entry.delivery) : settle(entry.settlement)));
}
