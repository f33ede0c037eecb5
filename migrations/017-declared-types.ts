import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * An empty table with a column of each type, where an expression has no type of its own: views name its columns beside
 * theirs, so that programs find out what these hold.
 */
export async function up(db: Kysely<unknown>, { hasTypedExpressions }: MigrationDialect): Promise<void> {
  if (hasTypedExpressions) return;
  const columns = ['BOOLEAN', 'BIGINT', 'DOUBLE', 'DATE', 'TIMESTAMP', 'TEXT'].map(
    (type) => `"${type.toLowerCase()}" ${type}`,
  );
  await sql.raw(`CREATE TABLE IF NOT EXISTS "_sync_types" (${columns.join(', ')})`).execute(db);
}
