import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** Files that belong to records: which content each of them showed and when, where that stands, and how far was looked. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await createFiles(db, timestamp);
  await db.schema
    .createTable('_sync_file_objects')
    .ifNotExists()
    .addColumn('store', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('bytes', 'bigint', (c) => c.notNull())
    .addColumn('type', 'text', (c) => c.notNull())
    .addColumn('width', 'integer')
    .addColumn('height', 'integer')
    .addColumn('stored_at', timestamp, (c) => c.notNull())
    .addColumn('checked_at', timestamp)
    // 1 for one that was looked for and not found whole: the files that show it are asked for again.
    .addColumn('missing', 'integer', (c) => c.notNull().defaultTo(sql.lit(0)))
    .addPrimaryKeyConstraint('_sync_file_objects_pk', ['store', 'sha256'])
    .execute();
  await db.schema
    .createTable('_sync_file_passages')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull().primaryKey())
    // A fingerprint: under other settings all records are looked at again.
    .addColumn('settings', 'text', (c) => c.notNull())
    .addColumn('looked_at', timestamp, (c) => c.notNull())
    .addColumn('full_at', timestamp, (c) => c.notNull())
    .execute();
}

async function createFiles(db: Kysely<unknown>, timestamp: MigrationDialect['timestamp']): Promise<void> {
  await db.schema
    .createTable('_sync_files')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('record_id', 'text', (c) => c.notNull())
    .addColumn('field', 'text', (c) => c.notNull())
    .addColumn('position', 'integer', (c) => c.notNull())
    .addColumn('version', 'integer', (c) => c.notNull())
    .addColumn('url', 'text', (c) => c.notNull())
    // Another address that the record has by now, from which nothing has come yet.
    .addColumn('next_url', 'text')
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('store', 'text')
    .addColumn('sha256', 'text')
    .addColumn('bytes', 'bigint')
    .addColumn('type', 'text')
    .addColumn('width', 'integer')
    .addColumn('height', 'integer')
    .addColumn('etag', 'text')
    .addColumn('last_modified', 'text')
    .addColumn('record_hash', 'text', (c) => c.notNull())
    .addColumn('attempts', 'integer', (c) => c.notNull().defaultTo(sql.lit(0)))
    .addColumn('due_at', timestamp)
    .addColumn('code', 'text')
    .addColumn('error', 'text')
    .addColumn('fetched_at', timestamp)
    .addColumn('valid_from', timestamp, (c) => c.notNull())
    .addColumn('valid_to', timestamp)
    .addPrimaryKeyConstraint('_sync_files_pk', ['resource', 'record_id', 'field', 'position', 'version'])
    .execute();
  await db.schema.createIndex('_sync_files_by_content').ifNotExists().on('_sync_files').column('sha256').execute();
  // What a page shows first.
  await db.schema
    .createIndex('_sync_files_newest')
    .ifNotExists()
    .on('_sync_files')
    .columns(['resource', 'valid_from'])
    .execute();
  await db.schema
    .createIndex('_sync_files_due')
    .ifNotExists()
    .on('_sync_files')
    .columns(['resource', 'due_at'])
    .where(sql.ref('due_at'), 'is not', null)
    .execute();
}
