import { sql, type Kysely } from 'kysely';

const timestamp = sql`timestamp`;

/**
 * When the service itself says that a record was deleted; and how far its feeds have been read: of deletes, and of
 * changes.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_suspects').addColumn('deleted_at', timestamp).execute();
  await db.schema
    .createTable('_sync_feeds')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('feed', 'text', (c) => c.notNull())
    // Of the feed as the profile declares it: what another one has left means nothing.
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('cursor', 'text')
    .addColumn('page', 'text')
    .addColumn('fresh', 'text')
    .addColumn('moved_at', timestamp, (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_feeds_pk', ['resource', 'feed'])
    .execute();
}
