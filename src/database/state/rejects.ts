import type { CompiledQuery, Kysely } from 'kysely';
import { inParts } from './in-parts.ts';
import type { OwnTables, RejectRow } from '../own-tables.ts';

/** A record set aside: why, and its whole source text. The same text for the same reason is one row. */
export type Reject = Omit<RejectRow, 'first_seen' | 'last_seen' | 'resolved_at'>;

/** Rows per statement, below every database's limit of bound values. */
const ROWS_PER_STATEMENT = 200;

/** Few statements for many records: one for each would take several kilobytes. */
export function saveRejects(own: Kysely<OwnTables>, rejects: readonly Reject[], seenAt: string): CompiledQuery[] {
  const times = { first_seen: seenAt, last_seen: seenAt, resolved_at: null };
  const rows = distinct(rejects).map((reject) => Object.assign({}, reject, times));
  return inParts(rows, ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_rejects')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['resource', 'hash', 'reason']).doUpdateSet((update) => ({
          last_seen: seenAt,
          run_id: update.ref('excluded.run_id'),
          detail: update.ref('excluded.detail'),
          resolved_at: null,
        })),
      )
      .compile(),
  );
}

/** No statement may write a row twice. */
function distinct(rejects: readonly Reject[]): Reject[] {
  const byRow = new Map(rejects.map((reject) => [`${reject.resource} ${reject.hash} ${reject.reason}`, reject]));
  return [...byRow.values()];
}

/** Ids per statement, below every database's limit of bound values. */
const IDS_PER_STATEMENT = 1_000;

/** Closes the rejects of records that have been loaded since. */
export function resolveRejects(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: string,
): CompiledQuery[] {
  const resolve = resolved(own, resource, at);
  return inParts(ids, IDS_PER_STATEMENT).map((part) => resolve.where('record_id', 'in', part).compile());
}

/** Closes the rejects that a complete full walk begun at `walkStartedAt` has not met again. */
export function resolveUnseenRejects(
  own: Kysely<OwnTables>,
  resource: string,
  walkStartedAt: string,
  at: string,
): CompiledQuery {
  return resolved(own, resource, at).where('last_seen', '<', walkStartedAt).compile();
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
