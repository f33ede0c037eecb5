import type { Kysely } from 'kysely';

/** What the service sent, beside a body in which fields are hashed or left out, where the profile keeps it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_versions').addColumn('source_text', 'text').execute();
}
