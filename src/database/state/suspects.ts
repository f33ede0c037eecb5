import { sql, type CompiledQuery, type ExpressionBuilder, type Kysely } from 'kysely';
import { inParts } from './in-parts.ts';
import type { OwnTables, SuspectRow, TimestampText } from '../own-tables.ts';

/** Ids per statement, below every database's limit of bound values. */
const IDS_PER_STATEMENT = 500;

/** The columns that several suspects have in common. */
export type Suspicion = Pick<SuspectRow, 'resource' | 'reason' | 'state' | 'evidence_at' | 'detail'>;

/** Rows of whose records a listing shows an older state, to be read alone. */
interface OlderState {
  record_id: string;
  hash: string;
  /** Whole full walks in a row, this one included, that have shown it. */
  sweeps: number;
}

/** Notes older states; suspects that a person must decide stay as they are. `at` is when the walk began. */
export function suspectOlder(
  own: Kysely<OwnTables>,
  resource: string,
  states: readonly OlderState[],
  at: TimestampText,
): CompiledQuery[] {
  const noted = { reason: 'older', state: 'open', evidence_at: at, detail: null } as const;
  return inParts(states, IDS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_suspects')
      .values(part.map((state) => ({ resource, found_at: at, ...noted, ...state })))
      .onConflict((conflict) =>
        conflict
          .columns(['resource', 'record_id'])
          .doUpdateSet({ ...noted, sweeps: sql<number>`excluded.sweeps`, hash: sql<string>`excluded.hash` })
          .where('_sync_suspects.state', 'in', ['open', 'settled']),
      )
      .compile(),
  );
}

/**
 * Notes records that are live here and may be gone. A later suspicion changes neither what a person has released nor
 * what is held. `sweeps` is how many whole walks this one stands for.
 */
export function suspectGone(
  own: Kysely<OwnTables>,
  { state, detail, ...suspicion }: Suspicion,
  ids: readonly string[],
  sweeps: 0 | 1 | 2,
): CompiledQuery[] {
  const { evidence_at } = suspicion;
  const noted = { state, detail, sweeps, found_at: evidence_at, hash: null, deleted_at: null };
  const stays = sql`_sync_suspects.state = 'released' OR (_sync_suspects.state = 'held' AND ${state} = 'open')`;
  return inParts(ids, IDS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_suspects')
      .values(part.map((record_id) => ({ ...suspicion, ...noted, record_id })))
      .onConflict((conflict) =>
        conflict.columns(['resource', 'record_id']).doUpdateSet({
          // What the service has said proves more than a walk that did not list it.
          reason: sql`CASE WHEN excluded.reason NOT IN ('stated', 'left_out') AND _sync_suspects.reason IN ('event', 'stated', 'told')
            THEN _sync_suspects.reason ELSE excluded.reason END`,
          state: sql`CASE WHEN ${stays} THEN _sync_suspects.state ELSE excluded.state END`,
          detail: sql`CASE WHEN ${stays} THEN _sync_suspects.detail ELSE excluded.detail END`,
          sweeps: sql`CASE WHEN _sync_suspects.reason = 'older' THEN 0 ELSE _sync_suspects.sweeps END + ${sweeps}`,
          evidence_at,
          hash: null,
        }),
      )
      .compile(),
  );
}

/** Forgets the suspects that a whole walk has listed, or that were written or deleted since it began. */
export function forgetListed(own: Kysely<OwnTables>, resource: string, walkStartedAt: TimestampText): CompiledQuery {
  return own
    .deleteFrom('_sync_suspects')
    .where('resource', '=', resource)
    .where('reason', '<>', 'older')
    .where('state', '<>', 'settled')
    .where('evidence_at', '<', walkStartedAt)
    .compile();
}

/** What is forgotten of records: all; what needs nothing more (`waiting`); or what a feed has said before (`fed`). */
type Forgettable = 'all' | 'waiting' | 'fed';

export function forgetSuspects(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  which: Forgettable = 'all',
): CompiledQuery[] {
  let forget = own.deleteFrom('_sync_suspects').where('resource', '=', resource);
  if (which !== 'all') forget = forget.where('state', '<>', 'settled');
  if (which === 'fed') forget = forget.where('reason', 'in', ['stated', 'told', 'older', 'left_out']);
  return inParts(ids, IDS_PER_STATEMENT).map((part) => forget.where('record_id', 'in', part).compile());
}

/** Notes that records were deleted because a person has decided it. */
export function markConfirmed(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  const confirmed = own
    .updateTable('_sync_suspects')
    .set({ state: 'settled', sweeps: 0, evidence_at: at, detail: null })
    .where('resource', '=', resource);
  return inParts(ids, IDS_PER_STATEMENT).map((part) => confirmed.where('record_id', 'in', part).compile());
}

/** Forgets the deletes that a person decided before `before`. */
export function forgetConfirmed(own: Kysely<OwnTables>, resource: string, before: TimestampText): CompiledQuery {
  return own
    .deleteFrom('_sync_suspects')
    .where('resource', '=', resource)
    .where('state', '=', 'settled')
    .where('evidence_at', '<', before)
    .compile();
}

/** Releases deletes that wait; all of the resource if no ids are given. */
export function releaseSuspects(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const waiting = waitingDeletes(resource);
  const release = own.updateTable('_sync_suspects').set({ state: 'released', detail: null }).where(waiting);
  if (ids.length === 0) return [release.compile()];
  return inParts(ids, IDS_PER_STATEMENT).map((part) => release.where('record_id', 'in', part).compile());
}

/** Forgets deletes that wait: their rows stay live. All of the resource if no ids are given. */
export function discardSuspects(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const discard = own.deleteFrom('_sync_suspects').where(waitingDeletes(resource));
  if (ids.length === 0) return [discard.compile()];
  return inParts(ids, IDS_PER_STATEMENT).map((part) => discard.where('record_id', 'in', part).compile());
}

/** The suspects that are about a delete, and that is still to be carried out. */
function waitingDeletes(resource: string) {
  return (is: ExpressionBuilder<OwnTables, '_sync_suspects'>) =>
    is.and([is('resource', '=', resource), is('reason', '<>', 'older'), is('state', '<>', 'settled')]);
}

/** Holds the deletes that are still to be confirmed. */
export function holdOpen(own: Kysely<OwnTables>, resource: string, detail: string): CompiledQuery {
  return own
    .updateTable('_sync_suspects')
    .set({ state: 'held', detail })
    .where('resource', '=', resource)
    .where('reason', '<>', 'older')
    .where('state', '=', 'open')
    .compile();
}

/** Suspects in these states, those that a person has released first, then the oldest; all of them without a limit. */
export function readSuspects(
  own: Kysely<OwnTables>,
  resource: string,
  states: readonly SuspectRow['state'][],
  limit = Number.MAX_SAFE_INTEGER,
): Promise<SuspectRow[]> {
  return own
    .selectFrom('_sync_suspects')
    .selectAll()
    .where('resource', '=', resource)
    .where('state', 'in', states)
    .orderBy('state', 'desc')
    .orderBy('found_at')
    .orderBy('record_id')
    .limit(limit)
    .execute();
}

export async function countSuspects(
  own: Kysely<OwnTables>,
  resource: string,
  state: SuspectRow['state'],
  since?: TimestampText,
): Promise<number> {
  const alike = own
    .selectFrom('_sync_suspects')
    .select((select) => select.fn.countAll<number>().as('n'))
    .where('resource', '=', resource)
    .where('state', '=', state);
  const counted = since === undefined ? alike : alike.where('evidence_at', '>=', since);
  return (await counted.executeTakeFirstOrThrow()).n;
}

/** The resources with deletes that a person has released and nobody has carried out yet. */
export async function releasedResources(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await own
    .selectFrom('_sync_suspects')
    .select('resource')
    .distinct()
    .where('state', '=', 'released')
    .execute();
  return rows.map(({ resource }) => resource);
}

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
