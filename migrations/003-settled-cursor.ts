import { sql, type Kysely } from 'kysely';

/**
 * By the service's clock: when the cursor's value was first seen, and when the last whole walk began. Together they say
 * whether anything up to the cursor can still come late; if not, it need not be fetched again.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('_sync_checkpoints')
    .addColumn('cursor_seen_at', sql`timestamp`)
    .execute();
  await db.schema
    .alterTable('_sync_checkpoints')
    .addColumn('checked_at', sql`timestamp`)
    .execute();
}
