import { sql } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import type { InboxOptions } from '../../database.ts';
import { countDeliveries, inboxQueries, inboxViewer, replayStatement, writeEntries } from '../../inbox-queries.ts';
import { type Inbox, type InboxEffect, type InboxEntry, type InboxTables, TO_WORK_ON } from '../../inbox.ts';
import type { PostgresAddress } from '../connection/address.ts';
import { cleanTables } from '../connection/clean-tables.ts';
import { INBOX_TABLES, openDatabase } from '../connection/open-database.ts';
import type { Session } from '../connection/session.ts';
import { execute, transact, type TransactOptions } from '../connection/transact.ts';

/** A sender waits for an answer: whatever is in the way is told soon, and the next attempt is the caller's. */
const ONCE: TransactOptions = { retryForMs: 0, decideMs: 500, statementMs: 10_000, lockMs: 2_000 };

/**
 * One transaction at a time changes deliveries that stand: two receivers with the same ones in another order would wait
 * for each other's rows in a circle.
 */
const IN_TURN = sql`SELECT pg_advisory_xact_lock(hashtext('content-sync inbox ' || current_schema()))`;

/** Opens (and makes, and migrates) the inbox of a schema. Throws `ConfigError` where it cannot be used. */
export async function openInbox(address: PostgresAddress, clock: Clock, { asked }: InboxOptions = {}): Promise<Inbox> {
  const { database, own, close } = await openDatabase<InboxTables>(address, clock, INBOX_TABLES);

  async function runEntries({ execute: run }: Session, entries: readonly InboxEntry[]): Promise<InboxEffect[]> {
    const steps = writeEntries(own, entries, IN_TURN.compile(own));
    let step = steps.next();
    while (step.done !== true) step = steps.next((await run(step.value.sql, step.value.parameters)).rows);
    if (step.value.some((effect) => TO_WORK_ON.has(effect))) await asked?.(run);
    return step.value;
  }

  async function replay({ execute: run }: Session, deliveries: readonly number[] | 'dead'): Promise<number> {
    await run(IN_TURN.compile(own).sql);
    const replayed = replayStatement(own, deliveries);
    const { rows } = await run(replayed.sql, replayed.parameters);
    if (rows.length > 0) await asked?.(run);
    return rows.length;
  }

  const write = (entries: readonly InboxEntry[]): Promise<InboxEffect[]> =>
    transact(database, (session) => runEntries(session, entries), ONCE);
  const clean = (): Promise<boolean> => cleanTables(database, ['_sync_deliveries']);
  return {
    ...inboxViewer(own, close),
    ...inboxQueries(own),
    settle: async (settlements) => {
      await write(settlements.map((settlement) => ({ settlement })));
      if (settlements.some(({ erases }) => erases)) await clean();
    },
    clean,
    write,
    figures: async () => {
      // Whoever asks does not wait for a server that is away.
      await execute(database, { retryForMs: 0 })('SELECT 1');
      return countDeliveries(own);
    },
    replay: async (deliveries) =>
      deliveries.length === 0 ? 0 : transact(database, (session) => replay(session, deliveries)),
  };
}
