import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** Records that a person has had erased, as keyed fingerprints; and how many of each run were dropped for that. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_forgotten')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    // Tells whether the key of the settings is the one that this was made with.
    .addColumn('key_mark', 'text', (c) => c.notNull())
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('asked_at', timestamp, (c) => c.notNull())
    // The id itself, until everything of the record is erased.
    .addColumn('record_id', 'text')
    .addColumn('erased_at', timestamp)
    .addColumn('cleaned_at', timestamp)
    .addColumn('counts', 'text')
    .addPrimaryKeyConstraint('_sync_forgotten_pk', ['resource', 'fingerprint'])
    .execute();
  await db.schema
    .alterTable('_sync_runs')
    .addColumn('forgotten', 'bigint', (c) => c.notNull().defaultTo(sql.lit(0)))
    .execute();
}
