import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';
import { inParts } from './in-parts.ts';

/** Keys per statement, below every database's limit of bound values. */
const KEYS_PER_STATEMENT = 1_000;

/** The statements that note of deleted records that they are back; they belong to the transaction of their rows. */
export function restoreDeletes(
  own: Kysely<OwnTables>,
  resource: string,
  keys: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  return inParts(keys, KEYS_PER_STATEMENT).map((part) =>
    own
      .updateTable('_sync_deletes')
      .set({ restored_at: at })
      .where('resource', '=', resource)
      .where('id', 'in', part)
      .where('restored_at', 'is', null)
      .compile(),
  );
}

/** For a resource that is copied anew from nothing. */
export function forgetDeletes(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  return own.deleteFrom('_sync_deletes').where('resource', '=', resource).compile();
}
