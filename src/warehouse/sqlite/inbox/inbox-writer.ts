import type { Database } from 'better-sqlite3';
import type { DeliveryState, InboxEffect, InboxEntry, NewDelivery, Settlement } from '../../inbox.ts';
import { repetition, setApart, sizeOf, type Repetition } from '../../repetition.ts';

const INSERT = `INSERT INTO "_sync_deliveries"
  ("delivery_id", "received_at", "headers", "body", "size", "differs_from") VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT ("delivery_id") DO NOTHING`;
const FIND = `SELECT "seq", "state", "body" = ? AS "isSame" FROM "_sync_deliveries" WHERE "delivery_id" = ?`;
const COUNT = 'UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1 WHERE "seq" = ?';
const COUNT_EVENT = 'UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1, "events" = "events" + 1 WHERE "seq" = ?';
const WAIT_AGAIN = `UPDATE "_sync_deliveries" SET "repeats" = "repeats" + 1, "events" = "events" + 1,
  "state" = 'waiting', "attempts" = 0, "due_at" = NULL, "finished_at" = NULL,
  "received_at" = ?, "headers" = ?, "body" = ?, "size" = ? WHERE "seq" = ?`;
const SETTLE = `UPDATE "_sync_deliveries" SET "state" = ?, "attempts" = ?, "due_at" = ?, "finished_at" = ?,
  "reason" = ?, "kind" = ?, "resource" = ?, "record_id" = ? WHERE "seq" = ? AND "events" = coalesce(?, "events")`;

/** Writes entries, through statements that are compiled once. Inside the caller's transaction. */
export function writeEntries(db: Database): (entries: readonly InboxEntry[]) => InboxEffect[] {
  const insert = db.prepare(INSERT);
  const find = db.prepare<[Uint8Array, string], { seq: number; state: DeliveryState; isSame: 0 | 1 }>(FIND);
  const settleRow = db.prepare(SETTLE);
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
    return settleRow.run(...values, to.seq, to.readEvents).changes > 0 ? 'settled' : 'overtaken';
  }

  return (entries) => entries.map((entry) => ('delivery' in entry ? store(entry.delivery) : settle(entry.settlement)));
}
