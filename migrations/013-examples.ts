import type { Kysely } from 'kysely';

/** A value of each column, for those who choose among them: null until it was looked for, empty if none may be shown. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_columns').addColumn('example', 'text').execute();
}
