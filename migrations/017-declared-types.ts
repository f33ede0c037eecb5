import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * An empty table with a column of each type, where an expression has no type of its own: views name its columns beside
 * theirs, so that programs find out what these hold.
 */
export async function up(db: Kysely<unknown>, { hasTypedExpressions }: MigrationDialect): Promise<void> {
  if (hasTypedExpressions) return;
  let table = db.schema.createTable('_sync_types').ifNotExists();
  for (const type of TYPES) table = table.addColumn(type.toLowerCase(), sql.raw(type));
  await table.execute();
}

const TYPES = ['BOOLEAN', 'BIGINT', 'DOUBLE', 'DATE', 'TIMESTAMP', 'TEXT'];
