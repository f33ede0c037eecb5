import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** Every delete with its restore, the days of the calendar, and times that tell their zone where the database can. */
export async function up(db: Kysely<unknown>, dialect: MigrationDialect): Promise<void> {
  await dialect.zoneTimes(db);
  await createDeletes(db, dialect);
  await fillDeletes(db, dialect);
  await createCalendar(db);
}

/** A delete is told apart by its version of the record: the service may name the same time for two of them. */
async function createDeletes(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_deletes')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('id', 'text', (c) => c.notNull())
    .addColumn('version', 'bigint', (c) => c.notNull())
    .addColumn('deleted_at', timestamp, (c) => c.notNull())
    .addColumn('restored_at', timestamp)
    .addPrimaryKeyConstraint('_sync_deletes_pk', ['resource', 'id', 'version'])
    .execute();
}

/** From the versions where all are kept, and from the rows that are deleted now. */
async function fillDeletes(db: Kysely<unknown>, dialect: MigrationDialect): Promise<void> {
  const { rows } = await sql<{ resource: string; name: string; key: string }>`
    SELECT DISTINCT resource, table_name AS name, column_name AS key FROM _sync_columns
    WHERE table_path = '[]' AND role = 'key'`.execute(db);
  for (const { resource, name, key } of rows) {
    if (!(await dialect.hasColumn(db, name, '_deleted_at'))) continue;
    await sql`INSERT INTO _sync_deletes (resource, id, version, deleted_at)
      SELECT CAST(${resource} AS TEXT), ${sql.id(key)}, "_version", "_deleted_at" FROM ${sql.id(name)}
      WHERE "_deleted_at" IS NOT NULL`.execute(db);
  }
  await sql`INSERT INTO _sync_deletes (resource, id, version, deleted_at, restored_at)
    SELECT resource, id, version, valid_from, valid_to FROM _sync_versions
    WHERE op = 'delete' AND valid_to IS NOT NULL`.execute(db);
}

async function createCalendar(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_calendar')
    .ifNotExists()
    .addColumn('date', 'date', (c) => c.notNull().primaryKey())
    .addColumn('month', 'text', (c) => c.notNull())
    .addColumn('quarter', 'text', (c) => c.notNull())
    .addColumn('year', 'bigint', (c) => c.notNull())
    .addColumn('iso_week', 'text', (c) => c.notNull())
    .addColumn('weekday', 'bigint', (c) => c.notNull())
    .addColumn('is_weekend', 'boolean', (c) => c.notNull())
    .execute();
}
