import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * Runs as a history: a row may stand for several that changed nothing, and tells what an operator asks of a run that
 * failed. Schema changes name the run that made them.
 */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  const runs = (): ReturnType<typeof db.schema.alterTable> => db.schema.alterTable('_sync_runs');
  // How many runs the row stands for; its other columns are those of the latest one, but for the next three.
  await runs()
    .addColumn('runs', 'bigint', (c) => c.notNull().defaultTo(1))
    .execute();
  // Null where the row stands for one run alone.
  await runs().addColumn('first_started_at', timestamp).execute();
  await runs().addColumn('all_requests', 'bigint').execute();
  await runs().addColumn('all_bytes', 'bigint').execute();
  // Of all its runs, as JSON: how many attempts had which outcome.
  await runs().addColumn('outcomes', 'text').execute();
  await runs().addColumn('error_hint', 'text').execute();
  await runs().addColumn('request_id', 'text').execute();
  await db.schema.alterTable('_sync_schema_changes').addColumn('run_id', 'text').execute();
  await db.schema
    .createIndex('_sync_runs_by_start')
    .ifNotExists()
    .on('_sync_runs')
    .columns(['resource', 'started_at'])
    .execute();
}
