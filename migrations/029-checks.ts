import type { Kysely } from 'kysely';

/** The question that a filter failed, and the assumptions of the profile that a run has verified; both as JSON. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_checkpoints').addColumn('filter_doubt', 'text').execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('verified', 'text').execute();
}
