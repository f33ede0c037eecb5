import { sql, type Kysely } from 'kysely';

const timestamp = sql`timestamp`;

/**
 * The tables of our own. Times are UTC text `YYYY-MM-DD HH:MM:SS.SSS` (what every BI client reads right), ids are the
 * source's key as text.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createRuns(db);
  await createCheckpoints(db);
  await createColumns(db);
  await createSchemaChanges(db);
  await createVersions(db);
  await createRejects(db);
  await createLeases(db);
  await createLimits(db);
  await createReshapes(db);
}

/** Every resource's part in every run. */
async function createRuns(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_runs')
    .ifNotExists()
    .addColumn('run_id', 'text', (c) => c.notNull())
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('command', 'text', (c) => c.notNull())
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('started_at', timestamp, (c) => c.notNull())
    .addColumn('finished_at', timestamp)
    .addColumn('pages', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('requests', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('records', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('inserted', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('updated', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('unchanged', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('rejected', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('retries', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('limited', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('bytes', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('error_code', 'text')
    .addColumn('error', 'text')
    .addPrimaryKeyConstraint('_sync_runs_pk', ['run_id', 'resource'])
    .execute();
}

/** Per resource: how far it is known to be here, and where an unfinished walk stands. */
async function createCheckpoints(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_checkpoints')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull().primaryKey())
    .addColumn('format', 'integer', (c) => c.notNull())
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('cursor', 'text')
    // By the service's clock: when the cursor's value was first seen, and when the last whole walk began.
    .addColumn('cursor_seen_at', timestamp)
    .addColumn('checked_at', timestamp)
    .addColumn('last_success_at', timestamp)
    .addColumn('last_full_at', timestamp)
    .addColumn('due_at', timestamp)
    .addColumn('walk_mode', 'text')
    .addColumn('walk_position', 'text')
    .addColumn('walk_since', 'text')
    .addColumn('walk_started_at', timestamp)
    .addColumn('walk_clock', timestamp)
    .addColumn('walk_high_water', 'text')
    .addColumn('walk_pages', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('walk_records', 'bigint', (c) => c.notNull().defaultTo(0))
    .execute();
}

/** Where every column of the copied tables comes from. */
async function createColumns(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_columns')
    .ifNotExists()
    .addColumn('table_name', 'text', (c) => c.notNull())
    .addColumn('column_name', 'text', (c) => c.notNull())
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('table_path', 'text', (c) => c.notNull())
    .addColumn('position', 'integer', (c) => c.notNull())
    .addColumn('role', 'text', (c) => c.notNull())
    .addColumn('source_path', 'text', (c) => c.notNull())
    .addColumn('type', 'text', (c) => c.notNull())
    .addColumn('first_seen', timestamp, (c) => c.notNull())
    .addColumn('comment', 'text')
    .addPrimaryKeyConstraint('_sync_columns_pk', ['table_name', 'column_name'])
    .execute();
}

/** Every column added or widened. */
async function createSchemaChanges(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_schema_changes')
    .ifNotExists()
    .addColumn('changed_at', timestamp, (c) => c.notNull())
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('table_name', 'text', (c) => c.notNull())
    .addColumn('column_name', 'text', (c) => c.notNull())
    .addColumn('from_type', 'text')
    .addColumn('to_type', 'text', (c) => c.notNull())
    .execute();
}

/** The source text of records: history, archive, and what tables can be built from anew. */
async function createVersions(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_versions')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('id', 'text', (c) => c.notNull())
    .addColumn('version', 'bigint', (c) => c.notNull())
    .addColumn('valid_from', timestamp, (c) => c.notNull())
    .addColumn('valid_to', timestamp)
    .addColumn('op', 'text', (c) => c.notNull())
    .addColumn('hash', 'text', (c) => c.notNull())
    .addColumn('body', 'text')
    .addPrimaryKeyConstraint('_sync_versions_pk', ['resource', 'id', 'version'])
    .execute();
}

/** Records set aside. */
async function createRejects(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_rejects')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('hash', 'text', (c) => c.notNull())
    .addColumn('reason', 'text', (c) => c.notNull())
    .addColumn('record_id', 'text')
    .addColumn('detail', 'text', (c) => c.notNull())
    .addColumn('body', 'text', (c) => c.notNull())
    .addColumn('run_id', 'text', (c) => c.notNull())
    .addColumn('first_seen', timestamp, (c) => c.notNull())
    .addColumn('last_seen', timestamp, (c) => c.notNull())
    .addColumn('resolved_at', timestamp)
    .addPrimaryKeyConstraint('_sync_rejects_pk', ['resource', 'hash', 'reason'])
    .execute();
}

/** Who works on a resource; the token grows with every owner. */
async function createLeases(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_leases')
    .ifNotExists()
    .addColumn('name', 'text', (c) => c.notNull().primaryKey())
    .addColumn('token', 'bigint', (c) => c.notNull())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('host', 'text', (c) => c.notNull())
    .addColumn('pid', 'integer', (c) => c.notNull())
    .addColumn('acquired_at', timestamp, (c) => c.notNull())
    .addColumn('expires_at', timestamp, (c) => c.notNull())
    .execute();
}

/** What is known of a service's limits, so that a restart does not start a storm. */
async function createLimits(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_limits')
    .ifNotExists()
    .addColumn('name', 'text', (c) => c.notNull().primaryKey())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('updated_at', timestamp, (c) => c.notNull())
    .execute();
}

/**
 * Resources whose rows are being written anew from the stored bodies, because a column was widened to a type that the
 * stored values do not tell (a timestamp to text). The row goes when the last of them is done.
 */
async function createReshapes(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_reshapes')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull().primaryKey())
    .addColumn('done_up_to', 'text', (c) => c.notNull())
    .addColumn('marked_at', timestamp, (c) => c.notNull())
    .execute();
}
