import type { Kysely } from 'kysely';

/** Resources whose rows all have their days in the calendar, and in which year that was found. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_calendar_covers')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('year', 'integer', (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_calendar_covers_pk', ['resource'])
    .execute();
}
