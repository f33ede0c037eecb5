import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * How often tables and views have changed: who plans a change finds out whether somebody else was quicker. And the
 * columns of views that keep their types although the walk that promised them is forgotten.
 */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_growth')
    .ifNotExists()
    .addColumn('id', 'integer', (c) => c.notNull().primaryKey())
    .addColumn('growths', 'bigint', (c) => c.notNull())
    .execute();
  await db.schema.alterTable('_sync_view_columns').addColumn('promised_at', timestamp).execute();
  const growth: Kysely<{ _sync_growth: { id: number; growths: number } }> = db.withTables();
  await growth
    .insertInto('_sync_growth')
    .values({ id: 1, growths: 0 })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
}
