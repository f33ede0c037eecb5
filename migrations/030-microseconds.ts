import { sql, type Kysely } from 'kysely';
import { MOMENT } from './014-history.ts';
import type { MigrationDialect } from './dialect.ts';

/** Views of history show times with their microseconds, as the columns of a database that keeps them do. */
export async function up(db: Kysely<unknown>, { hasFunctions }: MigrationDialect): Promise<void> {
  if (hasFunctions) await sql.raw(MOMENT).execute(db);
}
