import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';

/** Notes records that are deleted here and that a listing shows as they were: to be read alone before they come back. */
export function suspectListed(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  return ids.map((record_id) =>
    own
      .insertInto('_sync_suspects')
      .values({ resource, record_id, reason: 'listed', state: 'open', sweeps: 0, found_at: at, changed_at: at })
      .onConflict((conflict) => conflict.columns(['resource', 'record_id']).doNothing())
      .compile(),
  );
}
