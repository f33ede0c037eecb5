import { sql, type Kysely } from 'kysely';

const timestamp = sql`timestamp`;

/** What the service said of the end of its API, for each version of it that was asked for. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_notices')
    .ifNotExists()
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('value', 'text', (c) => c.notNull())
    // Where it was heard first.
    .addColumn('path', 'text', (c) => c.notNull())
    .addColumn('first_heard', timestamp, (c) => c.notNull())
    .addColumn('last_heard', timestamp, (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_notices_pk', ['version', 'kind', 'value'])
    .execute();
}
