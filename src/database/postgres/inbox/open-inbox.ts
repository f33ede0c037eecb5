// The inbox of webhook deliveries in a Postgres schema. Several receivers write to it, one after the other.
import { sql } from 'kysely';
import type { Clock } from '../../../model/clock.ts';
import type { InboxOptions } from '../../database.ts';
import {
  countDeliveries,
  type Inbox,
  inboxQueries,
  type InboxTables,
  isArrival,
  replayStatement,
  updateStatements,
  writeDeliveries,
} from '../../inbox.ts';
import { cleanTables, INBOX_TABLES, openDatabase } from '../connection/open-database.ts';
import type { PostgresAddress } from '../address.ts';
import { asStep, type Session } from '../connection/session.ts';
import { execute, transact, type TransactOptions } from '../connection/transact.ts';

/** Short, because the sender of a webhook waits for the response. After an error the caller tries again. */
const FAIL_FAST: TransactOptions = { retryForMs: 0, decideMs: 500, statementMs: 10_000, lockMs: 2_000 };

/** Serializes writers: two receivers with the same deliveries in another order would deadlock. */
const LOCK_INBOX = sql`SELECT pg_advisory_xact_lock(hashtext('content-sync inbox ' || current_schema()))`;

/** Opens (and creates, and migrates) the inbox of a schema. Throws `ConfigError` if it cannot be used. */
export async function openInbox(
  address: PostgresAddress,
  clock: Clock,
  { requestDrain }: InboxOptions = {},
): Promise<Inbox> {
  const { database, own, close } = await openDatabase<InboxTables>(address, clock, INBOX_TABLES);
  const lock = LOCK_INBOX.compile(own);
  const whileLocked = <T>(work: (session: Session) => Promise<T>, options?: TransactOptions): Promise<T> => {
    const lockAndWork = async (session: Session): Promise<T> => {
      await session.execute(lock.sql);
      return work(session);
    };
    return transact(database, lockAndWork, options);
  };
  const clean = (): Promise<boolean> => cleanTables(database, ['_sync_deliveries']);
  return {
    ...inboxQueries(own, close),
    clean,
    write: (deliveries) =>
      whileLocked(async ({ execute: run }) => {
        const statements = writeDeliveries(own, deliveries);
        // Each statement depends on the rows that the one before has returned.
        let step = statements.next();
        while (step.done !== true) step = statements.next((await run(step.value.sql, step.value.parameters)).rows);
        if (step.value.some(isArrival)) await requestDrain?.(run);
        return step.value;
      }, FAIL_FAST),
    settle: async (updates) => {
      const statements = updateStatements(own, updates);
      await whileLocked((session) => session.runAll(statements.map(asStep)), FAIL_FAST);
      if (updates.some(({ erases }) => erases)) await clean();
    },
    figures: async () => {
      // Fails at once if the server cannot be reached, instead of waiting for it.
      await execute(database, { retryForMs: 0 })('SELECT 1');
      return countDeliveries(own);
    },
    replay: async (deliveries) => {
      if (deliveries.length === 0) return 0;
      const { sql: text, parameters } = replayStatement(own, deliveries);
      return whileLocked(async ({ execute: run }) => {
        const { rows } = await run(text, parameters);
        if (rows.length > 0) await requestDrain?.(run);
        return rows.length;
      });
    },
  };
}
