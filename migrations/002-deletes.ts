import { sql, type Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

const timestamp = sql`timestamp`;

/** What finding deleted records needs: which ids a walk has met, which are suspected to be gone, and who may look. */
export async function up(db: Kysely<unknown>, dialect: MigrationDialect): Promise<void> {
  await createSeen(db, dialect);
  await createSuspects(db);
  // The credential under which the unfinished and the last whole full walk were made, as a hash.
  await db.schema.alterTable('_sync_checkpoints').addColumn('walk_credential', 'text').execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('full_credential', 'text').execute();
  const count = (name: string) =>
    db.schema.alterTable('_sync_runs').addColumn(name, 'bigint', (c) => c.notNull().defaultTo(0));
  await count('deleted').execute();
  await count('held').execute();
}

/** Fingerprints of the ids that a full walk has met, a row per page; gone once the walk was swept after. */
async function createSeen(db: Kysely<unknown>, { bytes }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_seen')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('walk_started_at', timestamp, (c) => c.notNull())
    .addColumn('page', 'bigint', (c) => c.notNull())
    .addColumn('ids', bytes, (c) => c.notNull())
    .addColumn('unkeyed', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('_sync_seen_pk', ['resource', 'walk_started_at', 'page'])
    .execute();
}

/** Records that may be gone, until that is confirmed or refuted; or held, until a person decides. */
async function createSuspects(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('_sync_suspects')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    .addColumn('record_id', 'text', (c) => c.notNull())
    .addColumn('reason', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('sweeps', 'bigint', (c) => c.notNull())
    .addColumn('found_at', timestamp, (c) => c.notNull())
    // What it rests on: when the last walk that did not meet it began, or when the service said that it is gone.
    .addColumn('evidence_at', timestamp, (c) => c.notNull())
    .addColumn('detail', 'text')
    .addPrimaryKeyConstraint('_sync_suspects_pk', ['resource', 'record_id'])
    .execute();
}
