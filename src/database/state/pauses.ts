import type { CompiledQuery, Kysely } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables } from '../own-tables.ts';

/** Since when a resource is paused (epoch milliseconds), and by whom. */
export interface Pause {
  at: number;
  by: string;
}

/** The resources that are paused, by name; any process may have paused them. */
export async function readPauses(own: Kysely<OwnTables>): Promise<ReadonlyMap<string, Pause>> {
  const rows = await own.selectFrom('_sync_pauses').selectAll().execute();
  return new Map(
    rows.map(({ resource, paused_at, paused_by }) => [resource, { at: timestampMs(paused_at), by: paused_by }]),
  );
}

/** Statements that pause resources; one that is paused already stays so since then. */
export function pauseResources(
  own: Kysely<OwnTables>,
  resources: readonly string[],
  { at, by }: Pause,
): CompiledQuery[] {
  return resources.map((resource) =>
    own
      .insertInto('_sync_pauses')
      .values({ resource, paused_at: timestampText(at), paused_by: by })
      .onConflict((conflict) => conflict.column('resource').doNothing())
      .compile(),
  );
}

/** Statements that end the pause of resources. */
export function resumeResources(own: Kysely<OwnTables>, resources: readonly string[]): CompiledQuery[] {
  return resources.map((resource) => own.deleteFrom('_sync_pauses').where('resource', '=', resource).compile());
}

/** The error of work on a paused resource: nothing is lost, whoever resumes it has the work done. */
export function pausedError(source: string, resource: string): SyncError {
  return new SyncError('paused', `${resource} is paused`, {
    recovery: 'stop',
    hint: `content-sync resume --source ${source} ${resource}`,
  });
}
