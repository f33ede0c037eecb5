import type { Kysely } from 'kysely';

/** Columns of views get wider types as those of tables do: no time from which on they keep their type is stored. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_view_columns').dropColumn('promised_at').execute();
}
