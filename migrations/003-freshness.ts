import { sql, type Kysely, type RawBuilder } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/**
 * How old the copy is, for those who read it and for dashboards: a view, because it is a promise while our tables are
 * not. Every column has a type for BI clients: on SQLite a bare column keeps its own, and the rest have a CAST.
 */
export async function up(db: Kysely<unknown>, dialect: MigrationDialect): Promise<void> {
  await sql`CREATE VIEW sync_freshness AS ${freshness(dialect)}`.execute(db);
}

/** The view's query; `further` are columns behind those that it has had from the first. */
export function freshness({ moment }: MigrationDialect, further: RawBuilder<unknown> = sql``): RawBuilder<unknown> {
  return sql`SELECT
      CAST(known.resource AS TEXT) AS resource,
      ${moment(sql`checkpoint.last_success_at`)} AS last_success_at,
      ${moment(sql`checkpoint.last_full_at`)} AS last_full_at,
      CAST(${lastRun('status')} AS TEXT) AS last_run_status,
      ${moment(lastRun('started_at'))} AS last_run_started_at,
      ${moment(lastRun('finished_at'))} AS last_run_finished_at,
      CAST(${lastRun('error_code')} AS TEXT) AS last_run_error,
      CAST((SELECT count(*) FROM _sync_rejects
        WHERE _sync_rejects.resource = known.resource AND resolved_at IS NULL) AS BIGINT) AS open_rejects${further}
    FROM (SELECT resource FROM _sync_checkpoints UNION SELECT resource FROM _sync_runs) AS known
    LEFT JOIN _sync_checkpoints AS checkpoint ON checkpoint.resource = known.resource`;
}

/** A column of a resource's last run; by the run's id, which begins with its time: that is what there is an index on. */
export function lastRun(column: string): RawBuilder<unknown> {
  return sql`(SELECT ${sql.ref(column)} FROM _sync_runs WHERE _sync_runs.resource = known.resource
    ORDER BY run_id DESC LIMIT 1)`;
}
