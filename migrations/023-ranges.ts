import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** The parts of full walks that many processes walk at once, each with a checkpoint of its own. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_ranges')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('range', 'integer', (c) => c.notNull())
    .addColumn('walk_started_at', timestamp, (c) => c.notNull())
    // The run under whose id its records are set aside.
    .addColumn('run_id', 'text', (c) => c.notNull())
    // Indexes of pages, the first page of the listing is 0; the last range has no border.
    .addColumn('first_page', 'integer', (c) => c.notNull())
    .addColumn('border_page', 'integer')
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('attempts', 'integer', (c) => c.notNull())
    // Where it goes on; null at its beginning.
    .addColumn('position', 'text')
    // What its pages have shown so far, as JSON.
    .addColumn('progress', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_ranges_pk', ['resource', 'range'])
    .execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('ranges_given_up_at', timestamp).execute();
}
