import type { Kysely } from 'kysely';

/** The log of schema changes also names columns that get no values any more, and that have values again. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Null for a column that was added or widened.
  await db.schema.alterTable('_sync_schema_changes').addColumn('kind', 'text').execute();
  // Where the values seem to be now.
  await db.schema.alterTable('_sync_schema_changes').addColumn('renamed_to', 'text').execute();
}
