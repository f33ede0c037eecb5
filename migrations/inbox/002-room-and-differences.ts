import { sql, type Kysely } from 'kysely';

/**
 * What a delivery takes up, so that what waits is bounded without reading it; and the id that a delivery was sent under
 * if another body stands under that already.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const deliveries = db.schema.alterTable('_sync_deliveries');
  await deliveries.addColumn('size', 'bigint', (c) => c.notNull().defaultTo(0)).execute();
  await deliveries.addColumn('differs_from', 'text').execute();
  await sql`UPDATE "_sync_deliveries" SET "size" = length("body") + length("headers")
    WHERE "state" = 'waiting' OR "state" = 'dead'`.execute(db);
  // With the size in it, the index alone says how much waits.
  await sql`DROP INDEX "_sync_deliveries_waiting"`.execute(db);
  await sql`CREATE INDEX "_sync_deliveries_waiting" ON "_sync_deliveries" ("seq", "due_at", "received_at", "size")
    WHERE "state" = 'waiting'`.execute(db);
  await sql`CREATE INDEX "_sync_deliveries_different" ON "_sync_deliveries" ("seq")
    WHERE "differs_from" IS NOT NULL`.execute(db);
}
