import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** Resources that a person has paused, until the same or another one resumes them. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_pauses')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull().primaryKey())
    .addColumn('paused_at', timestamp, (c) => c.notNull())
    .addColumn('paused_by', 'text', (c) => c.notNull())
    .execute();
}
