import { sql } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import type { InboxOptions } from '../../database.ts';
import {
  countDeliveries,
  type Inbox,
  type InboxEffect,
  type InboxEntry,
  inboxQueries,
  type InboxTables,
  inboxViewer,
  replayStatement,
  WAITING_EFFECTS,
  writeEntries,
} from '../../inbox.ts';
import { cleanTables, INBOX_TABLES, openDatabase } from '../connection/open-database.ts';
import type { PostgresAddress } from '../address.ts';
import { asStep, type Session } from '../connection/session.ts';
import { execute, transact, type TransactOptions } from '../connection/transact.ts';

/** A sender waits for the response: errors are reported soon, and the caller tries again. */
const ONCE: TransactOptions = { retryForMs: 0, decideMs: 500, statementMs: 10_000, lockMs: 2_000 };

/** Serializes changes of existing deliveries: two receivers with the same ones in another order would deadlock. */
const LOCK_INBOX = sql`SELECT pg_advisory_xact_lock(hashtext('content-sync inbox ' || current_schema()))`;

/** Opens (and creates, and migrates) the inbox of a schema. Throws `ConfigError` if it cannot be used. */
export async function openInbox(address: PostgresAddress, clock: Clock, { asked }: InboxOptions = {}): Promise<Inbox> {
  const { database, own, close } = await openDatabase<InboxTables>(address, clock, INBOX_TABLES);
  const lock = LOCK_INBOX.compile(own);

  async function runEntries(session: Session, entries: readonly InboxEntry[]): Promise<InboxEffect[]> {
    const statements = writeEntries(own, entries, lock);
    let step = statements.next();
    while (step.done !== true) {
      const answers = await session.runAll(step.value.map(asStep));
      step = statements.next(answers.map(({ rows }) => rows));
    }
    if (step.value.some((effect) => WAITING_EFFECTS.has(effect))) await asked?.(session.execute);
    return step.value;
  }

  async function replay({ execute: run }: Session, deliveries: readonly number[] | 'dead'): Promise<number> {
    await run(lock.sql);
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
      // Fails at once if the server is away, instead of waiting for it.
      await execute(database, { retryForMs: 0 })('SELECT 1');
      return countDeliveries(own);
    },
    replay: async (deliveries) =>
      deliveries.length === 0 ? 0 : transact(database, (session) => replay(session, deliveries)),
  };
}
