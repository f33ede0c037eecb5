import type { CompiledQuery, Kysely } from 'kysely';
import { timestampText } from '../model/timestamp-text.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';
import type { RunStart } from './runs.ts';

/**
 * The statement that removes runs of a resource that ended more than `keepMs` ago: all but `run`, the newest, and those
 * in which the last walk that came to its end was made (`lastWalkBegan` looks for them).
 */
export function forgetOldRuns(
  own: Kysely<OwnTables>,
  { run_id, resource }: Pick<RunStart, 'run_id' | 'resource'>,
  keepMs: number,
  now: number,
): CompiledQuery {
  const success = own.selectFrom('_sync_checkpoints').select('last_success_at').where('resource', '=', resource);
  // The end before the last one: what began later may belong to the walk that made it.
  const before = own
    .selectFrom('_sync_runs as ended')
    .select('ended.started_at')
    .where('ended.resource', '=', resource)
    .where('ended.status', 'in', ['ok', 'partial'])
    .where('ended.started_at', '<=', success)
    .orderBy('ended.started_at', 'desc')
    .limit(1)
    .offset(1);
  return own
    .deleteFrom('_sync_runs')
    .where('resource', '=', resource)
    .where('run_id', '<>', run_id)
    .where('finished_at', '<', timestampText(now - keepMs))
    .where((row) =>
      row.or([
        row.not(row.exists(success.where('last_success_at', 'is not', null))),
        row('started_at', '>', success),
        row('started_at', '<=', before),
      ]),
    )
    .compile();
}
