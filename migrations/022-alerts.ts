import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** What was told to whom, so that it is told once, however often the process starts. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_alerts')
    .ifNotExists()
    .addColumn('channel', 'text', (c) => c.notNull())
    // `failed content`, `deprecation`: the kind, and the resource if it is about one.
    .addColumn('alert', 'text', (c) => c.notNull())
    .addColumn('what', 'text', (c) => c.notNull())
    .addColumn('since', timestamp, (c) => c.notNull())
    .addColumn('told_at', timestamp, (c) => c.notNull())
    // When it was first found to be over; null while it goes on.
    .addColumn('gone_at', timestamp)
    // When that was told.
    .addColumn('over_at', timestamp)
    // How often it has come back within a day.
    .addColumn('returns', 'integer', (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_alerts_pk', ['channel', 'alert'])
    .execute();
}
