import type { Kysely } from 'kysely';

/** What commands on other machines ask of the process that leads a source, and what it answers. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('controls')
    .addColumn('id', 'uuid', (c) => c.notNull().primaryKey())
    .addColumn('source', 'text', (c) => c.notNull())
    .addColumn('request', 'jsonb', (c) => c.notNull())
    .addColumn('asked_by', 'text')
    .addColumn('asked_at', 'timestamptz', (c) => c.notNull())
    // Who carries it out, and when that was last heard of.
    .addColumn('taken_by', 'text')
    .addColumn('heard_at', 'timestamptz')
    .addColumn('answer', 'jsonb')
    .addColumn('report', 'jsonb')
    .addColumn('ended_at', 'timestamptz')
    .execute();
  await db.schema.createIndex('controls_asked_at').on('controls').column('asked_at').execute();
}
