import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, RejectRow } from '../own-tables.ts';
import { inParts, upsertRows } from './in-parts.ts';

// Records that could not be stored.

/** A rejected record with its reason and source text. The same text for the same reason is one row. */
export type Reject = Omit<RejectRow, 'first_seen' | 'last_seen' | 'resolved_at'>;

export function saveRejects(own: Kysely<OwnTables>, rejects: readonly Reject[], seenAt: string): CompiledQuery[] {
  const times = { first_seen: seenAt, last_seen: seenAt, resolved_at: null };
  // No statement may write a row twice.
  const distinct = new Map(
    rejects.map((reject) => [`${reject.resource} ${reject.hash} ${reject.reason}`, { ...reject, ...times }]),
  );
  const updated = ['last_seen', 'run_id', 'detail', 'resolved_at'] as const;
  return upsertRows(own, '_sync_rejects', [...distinct.values()], ['resource', 'hash', 'reason'], updated);
}

/** Resolves the rejects of records that were stored since. */
export function resolveRejects(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: string,
): CompiledQuery[] {
  const resolve = resolved(own, resource, at);
  return inParts(ids).map((part) => resolve.where('record_id', 'in', part).compile());
}

/** Resolves the rejects that a complete full scan, begun at `scanStartedAt`, has not seen again. */
export function resolveUnseenRejects(
  own: Kysely<OwnTables>,
  resource: string,
  scanStartedAt: string,
  at: string,
): CompiledQuery {
  return resolved(own, resource, at).where('last_seen', '<', scanStartedAt).compile();
}

function resolved(own: Kysely<OwnTables>, resource: string, at: string) {
  const rejects = own.updateTable('_sync_rejects').set({ resolved_at: at });
  return rejects.where('resource', '=', resource).where('resolved_at', 'is', null);
}

export async function countOpenRejects(own: Kysely<OwnTables>, resource: string): Promise<number> {
  const { open } = await own
    .selectFrom('_sync_rejects')
    .select((select) => select.fn.countAll<number>().as('open'))
    .where('resource', '=', resource)
    .where('resolved_at', 'is', null)
    .executeTakeFirstOrThrow();
  return open;
}
