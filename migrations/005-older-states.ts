import { sql, type Kysely } from 'kysely';

/** A listing that shows an older state of a record than its row is noted with that state, until it is decided. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('_sync_suspects').addColumn('hash', 'text').execute();
  // Deleted rows that a listing shows come back with the walk that lists them: nothing is noted of them any more.
  await sql`DELETE FROM "_sync_suspects" WHERE "reason" = 'listed'`.execute(db);
}
