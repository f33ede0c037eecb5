import { sql, type Kysely } from 'kysely';
import { freshness, lastRun } from './003-freshness.ts';
import type { MigrationDialect } from './dialect.ts';

/** What a run could not prove is kept with it and shown; and what the next one tries the service with. */
export async function up(db: Kysely<unknown>, dialect: MigrationDialect): Promise<void> {
  await db.schema.alterTable('_sync_runs').addColumn('warnings', 'text').execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('cursor_key', 'text').execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('walk_high_key', 'text').execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('walk_total', 'bigint').execute();
  await db.schema.alterTable('_sync_checkpoints').addColumn('kept_size', 'bigint').execute();
  await db.schema
    .alterTable('_sync_checkpoints')
    .addColumn('unproved_at', sql`timestamp`)
    .execute();
  await db.schema
    .alterTable('_sync_checkpoints')
    .addColumn('unproved_full_at', sql`timestamp`)
    .execute();
  await db.schema.alterTable('_sync_seen').addColumn('position', 'text').execute();
  await dialect.replaceView(
    db,
    'sync_freshness',
    freshness(
      dialect,
      sql`,
      CAST(${lastRun('warnings')} AS TEXT) AS last_run_warnings`,
    ),
  );
}
