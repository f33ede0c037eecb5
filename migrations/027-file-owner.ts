import type { Kysely } from 'kysely';

/** By which name this database marks the stores of files that are its own. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_file_owner')
    .ifNotExists()
    // Always 1: there is one name.
    .addColumn('id', 'integer', (c) => c.notNull().primaryKey())
    .addColumn('owner', 'text', (c) => c.notNull())
    .execute();
}
