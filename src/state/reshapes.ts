import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';

/** Notes that all rows of a resource must be rewritten; belongs to the transaction that makes it necessary. */
export function markReshape(own: Kysely<OwnTables>, resource: string, at: TimestampText): CompiledQuery {
  return own
    .insertInto('_sync_reshapes')
    .values({ resource, done_up_to: '', marked_at: at })
    .onConflict((conflict) => conflict.column('resource').doUpdateSet({ done_up_to: '' }))
    .compile();
}

/** The id up to which rows are rewritten ('' for none yet); null if nothing is to be done. */
export async function readReshape(own: Kysely<OwnTables>, resource: string): Promise<string | null> {
  const row = await own
    .selectFrom('_sync_reshapes')
    .select('done_up_to')
    .where('resource', '=', resource)
    .executeTakeFirst();
  return row?.done_up_to ?? null;
}

/** Notes how far the rewriting has come; null if it is done. Belongs to the transaction of the rows. */
export function saveReshape(own: Kysely<OwnTables>, resource: string, doneUpTo: string | null): CompiledQuery {
  if (doneUpTo === null) return own.deleteFrom('_sync_reshapes').where('resource', '=', resource).compile();
  return own.updateTable('_sync_reshapes').set({ done_up_to: doneUpTo }).where('resource', '=', resource).compile();
}
