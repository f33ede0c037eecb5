import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, RejectRow } from '../warehouse/own-tables.ts';

/** A record set aside: why, and its whole source text. The same text for the same reason is one row. */
export type Reject = Omit<RejectRow, 'first_seen' | 'last_seen' | 'resolved_at'>;

export function saveReject(own: Kysely<OwnTables>, reject: Reject, seenAt: string): CompiledQuery {
  return own
    .insertInto('_sync_rejects')
    .values({ ...reject, first_seen: seenAt, last_seen: seenAt, resolved_at: null })
    .onConflict((conflict) =>
      conflict
        .columns(['resource', 'hash', 'reason'])
        .doUpdateSet({ last_seen: seenAt, run_id: reject.run_id, detail: reject.detail, resolved_at: null }),
    )
    .compile();
}

/** Ids per statement, below every database's limit of bound values. */
const IDS_PER_STATEMENT = 1_000;

/** Closes the rejects of records that have come in well since. */
export function resolveRejects(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: string,
): CompiledQuery[] {
  const statements: CompiledQuery[] = [];
  for (let start = 0; start < ids.length; start += IDS_PER_STATEMENT) {
    const update = own
      .updateTable('_sync_rejects')
      .set({ resolved_at: at })
      .where('resource', '=', resource)
      .where('resolved_at', 'is', null)
      .where('record_id', 'in', ids.slice(start, start + IDS_PER_STATEMENT));
    statements.push(update.compile());
  }
  return statements;
}

/** Closes the rejects that a complete full walk begun at `walkStartedAt` has not met again. */
export function resolveUnseenRejects(
  own: Kysely<OwnTables>,
  resource: string,
  walkStartedAt: string,
  at: string,
): CompiledQuery {
  return own
    .updateTable('_sync_rejects')
    .set({ resolved_at: at })
    .where('resource', '=', resource)
    .where('resolved_at', 'is', null)
    .where('last_seen', '<', walkStartedAt)
    .compile();
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
