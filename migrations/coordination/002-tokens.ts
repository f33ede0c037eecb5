import type { Kysely } from 'kysely';

/** Access tokens that all processes on one Postgres use, one row per OAuth client and token endpoint. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('tokens')
    .addColumn('name', 'text', (c) => c.notNull().primaryKey())
    // Grows with every token; 0 before the first.
    .addColumn('version', 'bigint', (c) => c.notNull())
    // Encrypted by those who have the client's secret; null before the first.
    .addColumn('sealed', 'text')
    .addColumn('expires_at', 'timestamptz')
    // Who asks the service for the next one just now, and until when nobody else does.
    .addColumn('asker', 'text')
    .addColumn('asked_until', 'timestamptz')
    .execute();
}
