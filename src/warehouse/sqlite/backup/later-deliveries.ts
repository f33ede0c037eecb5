import type { Database } from 'better-sqlite3';

/** What a sender sent, with what only its later copy shows. */
interface Stored {
  seq: number;
  delivery_id: string;
  received_at: string;
  headers: string;
  body: Uint8Array;
  size: number;
  differs_from: string | null;
  events: number;
}

const THOSE = `SELECT seq, delivery_id, received_at, headers, body, size, differs_from, events FROM _sync_deliveries
  WHERE state <> 'ignored' ORDER BY seq`;
const ADD = `INSERT INTO _sync_deliveries (delivery_id, received_at, headers, body, size, differs_from)
  VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (delivery_id) DO NOTHING`;
/** Came again since, and was perhaps worked on then: the restored rows know nothing of it. */
const AGAIN = `UPDATE _sync_deliveries SET state = 'waiting', attempts = 0, due_at = NULL, finished_at = NULL, reason = NULL,
  events = ? WHERE delivery_id = ? AND events < ?`;

/** What a forgetting leaves of a delivery; before that it had another id. */
const ERASED = /^erased-\d+$/;
const ERASE = `UPDATE _sync_deliveries SET state = CASE state WHEN 'waiting' THEN 'done' ELSE state END, due_at = NULL,
  headers = '{}', body = x'', size = 0, record_id = NULL, differs_from = NULL, reason = 'it was erased after the backup',
  delivery_id = 'erased-' || seq WHERE seq = ? AND received_at = ?`;

const UNREADABLE = /^SQLITE_(?:CORRUPT|NOTADB|ERROR)/;

/**
 * Has everything that was acknowledged after the backup wait in the restored inbox, also what was worked on since: the
 * restored warehouse is from before; what was erased since is erased there too. Returns how many deliveries that are; null if the inbox that is replaced cannot be
 * read.
 */
export function keepLaterDeliveries(replaced: Database, restored: Database): number | null {
  const [add, again, erase] = [restored.prepare(ADD), restored.prepare(AGAIN), restored.prepare(ERASE)];
  restored.pragma('secure_delete = ON');
  const keepAll = restored.transaction((): number => {
    let kept = 0;
    for (const one of replaced.prepare<[], Stored>(THOSE).iterate()) {
      const { seq, delivery_id, received_at, headers, body, size, differs_from, events } = one;
      if (size === 0 && ERASED.test(delivery_id)) {
        erase.run(seq, received_at);
        continue;
      }
      kept += add.run(delivery_id, received_at, headers, body, size, differs_from).changes;
      kept += again.run(events, delivery_id, events).changes;
    }
    return kept;
  });
  try {
    return keepAll();
  } catch (error) {
    // Damaged, or of a version from long ago; a restored inbox that cannot be written to is no reason to go on.
    if (error instanceof Error && 'code' in error && UNREADABLE.test(String(error.code))) return null;
    throw error;
  }
}
