import type { Kysely } from 'kysely';
import type { MigrationDialect } from '../dialect.ts';

/** Times of deliveries tell their zone where the database can, as those of our other tables do. */
export async function up(db: Kysely<unknown>, { zoneTimes }: MigrationDialect): Promise<void> {
  await zoneTimes(db);
}
