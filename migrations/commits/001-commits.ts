import { sql, type Kysely } from 'kysely';

/** What each connection has last committed, for a session that gets no answer to its COMMIT; a row per connection. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('commits')
    .addColumn('connection', 'uuid', (c) => c.notNull().primaryKey())
    .addColumn('mark', 'uuid', (c) => c.notNull())
    .addColumn('changed_at', 'timestamptz', (c) => c.notNull().defaultTo(sql`now()`))
    // Every transaction changes its row: there is room for the next one on the same page.
    .modifyEnd(sql`WITH (fillfactor = 50)`)
    .execute();
}
