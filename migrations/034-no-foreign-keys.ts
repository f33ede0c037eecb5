import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** Drops the foreign keys between copied tables on Postgres, which would keep a table from being replaced. */
export async function up(db: Kysely<unknown>, { hasTypedExpressions }: MigrationDialect): Promise<void> {
  if (!hasTypedExpressions) return;
  await sql`DO $do$ DECLARE dropped text; BEGIN
    FOR dropped IN SELECT pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
      FROM pg_catalog.pg_constraint JOIN pg_catalog.pg_namespace AS place ON place.oid = connamespace
      WHERE contype = 'f' AND nspname = current_schema() AND pg_catalog.starts_with(conname, '_sync_')
    LOOP EXECUTE dropped; END LOOP; END $do$`.execute(db);
}
