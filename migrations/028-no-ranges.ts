import { sql, type Kysely } from 'kysely';

/**
 * One process reads each listing. A full sync that several processes had begun in ranges begins again from its first
 * page. `_sync_checkpoints.ranges_given_up_at` stays, unused: on SQLite, dropping a column fails if any view of a user
 * is broken.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`DELETE FROM _sync_seen WHERE resource IN (SELECT resource FROM _sync_ranges)`.execute(db);
  await sql`DELETE FROM _sync_leases WHERE name LIKE '%/~%'`.execute(db);
  await db.schema.dropTable('_sync_ranges').execute();
}
