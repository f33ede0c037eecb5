import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, SeenRow, TimestampText } from '../warehouse/own-tables.ts';

/** Notes which ids a page of a full walk had; belongs into the page's transaction. */
export function rememberSeen(own: Kysely<OwnTables>, row: SeenRow): CompiledQuery {
  const { ids, unkeyed } = row;
  return own
    .insertInto('_sync_seen')
    .values(row)
    .onConflict((conflict) => conflict.columns(['resource', 'walk_started_at', 'page']).doUpdateSet({ ids, unkeyed }))
    .compile();
}

/** Forgets what the walks of a resource have met; those of one walk may stay. */
export function forgetSeen(own: Kysely<OwnTables>, resource: string, except?: TimestampText): CompiledQuery {
  const all = own.deleteFrom('_sync_seen').where('resource', '=', resource);
  return (except === undefined ? all : all.where('walk_started_at', '<>', except)).compile();
}
