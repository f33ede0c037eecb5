import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * Columns of views get wider types as those of tables do, and computed columns are told apart from those of fields.
 * Version 0.1 kept narrow columns beside wider ones and filled them by triggers, which fail once the wider one changes its
 * type: such columns become NULL.
 */
export async function up(db: Kysely<unknown>, { hasFunctions }: MigrationDialect): Promise<void> {
  await db.schema
    .alterTable('_sync_view_columns')
    .addColumn('is_computed', 'integer', (c) => c.notNull().defaultTo(0))
    .execute();
  const { rows: triggers } = await (hasFunctions ? POSTGRES_TRIGGERS : SQLITE_TRIGGERS).execute(db);
  for (const { name, table } of triggers) {
    if (hasFunctions) await sql`DROP FUNCTION ${sql.id(name)}() CASCADE`.execute(db);
    else await sql`DROP TRIGGER ${sql.id(name)}`.execute(db);
    const { rows: kept } = await sql<{ column: string }>`SELECT "column_name" AS "column" FROM "_sync_columns"
      WHERE "table_name" = ${table} AND "role" = 'kept'`.execute(db);
    for (const { column } of kept) await sql`UPDATE ${sql.id(table)} SET ${sql.id(column)} = NULL`.execute(db);
  }
  await sql`DELETE FROM "_sync_columns" WHERE "role" = 'kept'`.execute(db);
}

interface Trigger {
  name: string;
  table: string;
}

const POSTGRES_TRIGGERS = sql<Trigger>`SELECT tgname AS "name", relname AS "table" FROM pg_trigger
  JOIN pg_class ON pg_class.oid = tgrelid
  WHERE starts_with(tgname, '_sync_keep_') AND relnamespace = current_schema()::regnamespace`;

const SQLITE_TRIGGERS = sql<Trigger>`SELECT "name", "tbl_name" AS "table" FROM sqlite_schema
  WHERE "type" = 'trigger' AND "name" LIKE '\\_sync\\_keep\\_%' ESCAPE '\\'`;
