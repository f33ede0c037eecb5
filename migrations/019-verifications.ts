import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** What each verification of a resource has found, as its certificate. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_verifications')
    .ifNotExists()
    .addColumn('verification_id', 'text', (c) => c.notNull())
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('verdict', 'text', (c) => c.notNull())
    .addColumn('began_at', timestamp, (c) => c.notNull())
    .addColumn('ended_at', timestamp, (c) => c.notNull())
    .addColumn('differences', 'bigint', (c) => c.notNull())
    .addColumn('requests', 'bigint', (c) => c.notNull())
    .addColumn('certificate', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_verifications_pk', ['resource', 'verification_id'])
    .execute();
}
