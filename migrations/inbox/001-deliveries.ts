import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from '../dialect.ts';

const timestamp = sql`timestamp`;

/** The inbox: webhook deliveries as they came, and what became of each. Times are UTC text, as in our other tables. */
export async function up(db: Kysely<unknown>, { bytes, growing }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_deliveries')
    .ifNotExists()
    // The number of a delivery that was purged is never given again.
    .addColumn('seq', growing.type, (c) => growing.number(c.primaryKey()))
    .addColumn('delivery_id', 'text', (c) => c.notNull().unique())
    .addColumn('received_at', timestamp, (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull().defaultTo('waiting'))
    .addColumn('attempts', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('due_at', timestamp)
    .addColumn('finished_at', timestamp)
    .addColumn('repeats', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('events', 'bigint', (c) => c.notNull().defaultTo(1))
    .addColumn('kind', 'text')
    .addColumn('resource', 'text')
    .addColumn('record_id', 'text')
    .addColumn('reason', 'text')
    .addColumn('headers', 'text', (c) => c.notNull())
    .addColumn('body', bytes, (c) => c.notNull())
    .execute();
  // Most deliveries are finished, so the two questions that are asked all the time have an index of their own: what
  // waits, in the order in which it came, and what may go.
  await sql`CREATE INDEX "_sync_deliveries_waiting" ON "_sync_deliveries" ("seq", "due_at", "received_at")
    WHERE "state" = 'waiting'`.execute(db);
  await sql`CREATE INDEX "_sync_deliveries_finished" ON "_sync_deliveries" ("state", "finished_at")
    WHERE "state" <> 'waiting'`.execute(db);
}
