import type { Kysely } from 'kysely';

/**
 * Columns of views get wider types as those of tables do: no time from which on they keep their type is stored. Computed
 * columns are told apart from those of fields, which keep the names that they have.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_view_columns').dropColumn('promised_at').execute();
  await db.schema
    .alterTable('_sync_view_columns')
    .addColumn('is_computed', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
}
