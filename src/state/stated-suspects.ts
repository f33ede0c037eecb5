import { sql, type CompiledQuery, type Kysely } from 'kysely';
import { inParts } from './in-parts.ts';
import type { OwnTables, SuspectRow, TimestampText } from '../warehouse/own-tables.ts';

/** Ids per statement, below every database's limit of bound values. */
const IDS_PER_STATEMENT = 500;

/** A record that the service itself names as deleted, and its own time of that (UTC text); null if it names none. */
interface StatedSuspect {
  key: string;
  at: TimestampText | null;
}

/**
 * Notes records that say of themselves that they are deleted (`stated`), or that a feed names (`told`), by an answer
 * that was asked for at `evidence_at`. What a person has released or must decide stays so.
 */
export function suspectStated(
  own: Kysely<OwnTables>,
  { resource, reason, evidence_at }: Pick<SuspectRow, 'resource' | 'evidence_at'> & { reason: 'stated' | 'told' },
  records: readonly StatedSuspect[],
): CompiledQuery[] {
  const noted = { resource, reason, evidence_at, found_at: evidence_at, detail: null, sweeps: 0, hash: null };
  const isDecided = sql`_sync_suspects.state IN ('released', 'held')`;
  return inParts(records, IDS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_suspects')
      .values(part.map(({ key, at }) => ({ ...noted, state: 'open' as const, record_id: key, deleted_at: at })))
      .onConflict((conflict) =>
        conflict.columns(['resource', 'record_id']).doUpdateSet({
          reason: sql`CASE WHEN _sync_suspects.reason = 'stated' THEN 'stated' ELSE excluded.reason END`,
          state: sql`CASE WHEN ${isDecided} THEN _sync_suspects.state ELSE excluded.state END`,
          detail: sql`CASE WHEN ${isDecided} THEN _sync_suspects.detail ELSE NULL END`,
          sweeps: sql`CASE WHEN _sync_suspects.reason = 'older' THEN 0 ELSE _sync_suspects.sweeps END`,
          evidence_at,
          hash: null,
          deleted_at: sql`excluded.deleted_at`,
        }),
      )
      .compile(),
  );
}

/** Forgets what a feed has said before of records that it brings. */
export function forgetFed(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const forget = own
    .deleteFrom('_sync_suspects')
    .where('resource', '=', resource)
    .where('reason', 'in', ['stated', 'told', 'older', 'left_out'])
    .where('state', '<>', 'settled');
  return inParts(ids, IDS_PER_STATEMENT).map((part) => forget.where('record_id', 'in', part).compile());
}

/** Holds these deletes until a person decides. */
export function holdSuspects(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  detail: string,
): CompiledQuery[] {
  const hold = own.updateTable('_sync_suspects').set({ state: 'held', detail }).where('resource', '=', resource);
  return inParts(ids, IDS_PER_STATEMENT).map((part) => hold.where('record_id', 'in', part).compile());
}
