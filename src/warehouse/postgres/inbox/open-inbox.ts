import { escapeIdentifier } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import type { InboxOptions } from '../../database.ts';
import {
  TO_WORK_ON,
  type DeliveryRow,
  type Inbox,
  type InboxEffect,
  type InboxEntry,
  type InboxFigures,
  type InboxTables,
} from '../../inbox.ts';
import { NAMED } from '../../name-state.ts';
import { inboxViewer } from '../../reading.ts';
import type { PostgresAddress } from '../connection/address.ts';
import { cleanTables } from '../connection/clean-tables.ts';
import { INBOX_TABLES, openDatabase, type OpenDatabase } from '../connection/open-database.ts';
import { onlyRow, type Session } from '../connection/session.ts';
import { execute, transact, type Database, type TransactOptions } from '../connection/transact.ts';
import { writeEntries } from './inbox-writer.ts';

/** Somebody waits for an answer: whatever is in the way is told soon, and the next attempt is the caller's. */
const ONCE: TransactOptions = { retryForMs: 0, decideMs: 500, statementMs: 10_000, lockMs: 500 };

const REPLAYED = `UPDATE "_sync_deliveries" SET "state" = 'waiting', "attempts" = 0, "due_at" = NULL,
  "finished_at" = NULL, "reason" = NULL, "events" = "events" + 1`;
/** In the order in which the writer locks rows. */
const REPLAY_DEAD = `${REPLAYED} WHERE "seq" IN (SELECT "seq" FROM "_sync_deliveries"
  WHERE "state" = 'dead' AND "state" <> 'waiting' ORDER BY "seq" FOR UPDATE)`;
const REPLAY = `${REPLAYED} WHERE "seq" IN (SELECT "seq" FROM "_sync_deliveries"
  WHERE "seq" = ANY ($1::bigint[]) ORDER BY "seq" FOR UPDATE)`;

/** Opens (and makes, and migrates) the inbox of a schema. Throws `ConfigError` where it cannot be used. */
export async function openInbox(address: PostgresAddress, clock: Clock, options: InboxOptions = {}): Promise<Inbox> {
  return postgresInbox(await openDatabase<InboxTables>(address, clock, INBOX_TABLES), options);
}

function postgresInbox(opened: OpenDatabase<InboxTables>, { asked }: InboxOptions): Inbox {
  const { database } = opened;
  const table = `${escapeIdentifier(database.schema)}."_sync_deliveries"`;
  const once = execute(database, { retryForMs: 0 });
  const purge = purgeStatement(table);

  const write = (entries: readonly InboxEntry[]): Promise<InboxEffect[]> =>
    transact(
      database,
      async (session) => {
        const effects = await writeEntries(session, entries);
        if (effects.some((effect) => TO_WORK_ON.has(effect))) await asked?.(session.execute);
        return effects;
      },
      ONCE,
    );

  const clean = (): Promise<boolean> => cleanTables(database, ['_sync_deliveries']);

  async function replay({ execute: run }: Session, deliveries: readonly number[] | 'dead'): Promise<number> {
    const { rowCount } = deliveries === 'dead' ? await run(REPLAY_DEAD) : await run(REPLAY, [deliveries]);
    if ((rowCount ?? 0) > 0) await asked?.(run);
    return rowCount ?? 0;
  }

  return {
    ...inboxViewer(opened.own, () => opened.close()),
    ...inboxReader(database, table),
    settle: async (settlements) => {
      await write(settlements.map((settlement) => ({ settlement })));
      if (settlements.some(({ erases }) => erases)) await clean();
    },
    clean,
    write,
    purge: async (before, limit) => (await once(purge, [before.finished, before.dead, limit])).rowCount ?? 0,
    replay: (deliveries) => transact(database, (session) => replay(session, deliveries)),
    nameState: () => NAMED,
  };
}

/** Rows that another transaction has locked are left for the next time. */
function purgeStatement(table: string): string {
  const gone = (state: string, before: string): string => `SELECT "seq" FROM (SELECT "seq" FROM ${table}
    WHERE "state" <> 'waiting' AND "state" = '${state}' AND "finished_at" < ${before}::timestamp AT TIME ZONE 'UTC'
    LIMIT $3 FOR UPDATE SKIP LOCKED) AS "${state}"`;
  const all = [gone('done', '$1'), gone('ignored', '$1'), gone('dead', '$2')].join(' UNION ALL ');
  return `DELETE FROM ${table} WHERE "seq" IN (${all})`;
}

/** Queries that each database answers in its own way, each a statement of its own. */
function inboxReader(database: Database, table: string): Pick<Inbox, 'waiting' | 'figures'> {
  const ask = execute(database);
  const askOnce = execute(database, { retryForMs: 0 });
  const waiting = `SELECT * FROM ${table}
    WHERE "state" = 'waiting' AND "seq" > $1 AND ("due_at" IS NULL OR "due_at" <= $2::timestamp AT TIME ZONE 'UTC') ORDER BY "seq" LIMIT $3`;
  // All counts are answered by an index alone. `state <> 'waiting'` tells the planner that it may use the second one.
  const counts = `SELECT count(*) AS "waiting", coalesce(sum("size"), 0)::bigint AS "waitingBytes",
    min("received_at") AS "oldest", 0 AS "walBytes",
    (SELECT count(*) FROM ${table} WHERE "state" = 'dead' AND "state" <> 'waiting') AS "dead",
    (SELECT count(*) FROM ${table} WHERE "differs_from" IS NOT NULL) AS "different",
    pg_total_relation_size($1::regclass) AS "bytes"
    FROM ${table} WHERE "state" = 'waiting'`;
  return {
    waiting: async (after, now, limit) => (await ask<DeliveryRow>(waiting, [after, now, limit])).rows,
    figures: async () => onlyRow(await askOnce<InboxFigures>(counts, [table])),
  };
}
