import type { Kysely } from 'kysely';

/** Tokens that a service gives in place of those of the settings, which end with that: they must not be lost. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_tokens')
    .addColumn('name', 'text', (c) => c.notNull().primaryKey())
    // Grows with every token; 0 before the first.
    .addColumn('version', 'bigint', (c) => c.notNull())
    // Encrypted by those who have the secret of the settings; null before the first.
    .addColumn('sealed', 'text')
    // Epoch milliseconds of the warehouse's clock, as below.
    .addColumn('expires_at', 'bigint')
    // Who asks the service for the next one just now, and until when nobody else does.
    .addColumn('asker', 'text')
    .addColumn('asked_until', 'bigint')
    .execute();
}
