import type { Kysely } from 'kysely';
import { sql } from 'kysely';

/**
 * A resource whose rows must be written anew from the stored bodies, because a column was widened to a type that the
 * stored values do not tell (a timestamp to text). The row goes when the last of them is done.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_reshapes')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull().primaryKey())
    .addColumn('done_up_to', 'text', (c) => c.notNull())
    .addColumn('marked_at', sql`timestamp`, (c) => c.notNull())
    .execute();
}
