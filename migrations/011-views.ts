import { sql, type Kysely } from 'kysely';

const timestamp = sql`timestamp`;

/** The views that people read, as they were made: so that each keeps the order and the types of its columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_views')
    .ifNotExists()
    .addColumn('view_name', 'text', (c) => c.notNull().primaryKey())
    // Null for views of the whole source.
    .addColumn('resource', 'text')
    .addColumn('query', 'text', (c) => c.notNull())
    .addColumn('description', 'text', (c) => c.notNull())
    .addColumn('made_at', timestamp, (c) => c.notNull())
    .execute();
  await db.schema
    .createTable('_sync_view_columns')
    .ifNotExists()
    .addColumn('view_name', 'text', (c) => c.notNull())
    .addColumn('column_name', 'text', (c) => c.notNull())
    .addColumn('position', 'integer', (c) => c.notNull())
    .addColumn('type', 'text', (c) => c.notNull())
    .addColumn('source_path', 'text')
    .addColumn('description', 'text')
    // `content.id` if it holds the key of another resource.
    .addColumn('refers_to', 'text')
    .addColumn('first_seen', timestamp, (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_view_columns_pk', ['view_name', 'column_name'])
    .execute();
}
