import type { DeliveryRow, Inbox, InboxFigures } from '../../inbox.ts';
import { execute, type Database } from '../connection/transact.ts';

/** The questions that are asked of an inbox, each a statement of its own. */
export type InboxReader = Pick<Inbox, 'waiting' | 'figures' | 'list' | 'get'>;

export function inboxReader(database: Database, table: string): InboxReader {
  const ask = execute(database);
  const askOnce = execute(database, { retryForMs: 0 });
  const waiting = `SELECT * FROM ${table}
    WHERE "state" = 'waiting' AND "seq" > $1 AND ("due_at" IS NULL OR "due_at" <= $2) ORDER BY "seq" LIMIT $3`;
  // All counts are answered by an index alone. `state <> 'waiting'` tells the planner that it may use the second one.
  const counts = `SELECT count(*) AS "waiting", coalesce(sum("size"), 0)::bigint AS "waitingBytes",
    min("received_at") AS "oldest", 0 AS "walBytes",
    (SELECT count(*) FROM ${table} WHERE "state" = 'dead' AND "state" <> 'waiting') AS "dead",
    (SELECT count(*) FROM ${table} WHERE "differs_from" IS NOT NULL) AS "different",
    pg_total_relation_size($1::regclass) AS "bytes"
    FROM ${table} WHERE "state" = 'waiting'`;
  const list = `SELECT * FROM ${table} WHERE "state" = coalesce($1, "state") ORDER BY "seq" DESC LIMIT $2`;
  const bySeq = `SELECT * FROM ${table} WHERE "seq" = $1`;
  const byId = `SELECT * FROM ${table} WHERE "delivery_id" = $1`;
  return {
    waiting: async (after, now, limit) => (await ask<DeliveryRow>(waiting, [after, now, limit])).rows,
    figures: async () => {
      const { rows } = await askOnce<InboxFigures & Record<string, unknown>>(counts, [table]);
      const [figures] = rows;
      if (figures === undefined) throw new Error('a count without a row');
      return figures;
    },
    list: async ({ state = null, limit }) => (await ask<DeliveryRow>(list, [state, limit])).rows,
    get: async (delivery) => {
      const { rows } = await ask<DeliveryRow>(typeof delivery === 'number' ? bySeq : byId, [delivery]);
      return rows[0] ?? null;
    },
  };
}
