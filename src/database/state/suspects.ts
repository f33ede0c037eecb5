// Delete candidates: records that may be deleted at the service, such as those that a full scan did not list. Each waits in
// `_sync_suspects` until another request verifies the delete, or until an operator decides. The same table has records
// that a listing shows in an older state than the copy. `DeleteCandidateRow` explains the reasons and states.
import { type CompiledQuery, type ExpressionBuilder, type Kysely, sql, type UpdateObject } from 'kysely';
import type { DeleteCandidateRow, OwnTables, TimestampText } from '../own-tables.ts';
import { inParts } from './in-parts.ts';

/** The columns that several delete candidates have in common. */
export type CandidateFacts = Pick<DeleteCandidateRow, 'resource' | 'reason' | 'state' | 'evidence_at' | 'detail'>;

/**
 * Notes live records that may be deleted, by evidence that counts for `sweeps` full scans. The state of released and held
 * candidates stays.
 */
export function noteMissingRecords(
  own: Kysely<OwnTables>,
  facts: CandidateFacts,
  ids: readonly string[],
  sweeps: 0 | 1 | 2,
): CompiledQuery[] {
  const records = ids.map((key) => ({ key, at: null }));
  return noteCandidates(own, { ...facts, sweeps }, records);
}

/** A record that the service reports as deleted, and the service's time of the delete; null if it names none. */
export interface ReportedDelete {
  key: string;
  at: TimestampText | null;
}

/**
 * Notes records that say of themselves that they are deleted (`stated`), or that a feed reports (`told`), by a response
 * to the request of `evidence_at`. Released and held candidates stay so.
 */
export function noteReportedDeletes(
  own: Kysely<OwnTables>,
  facts: { resource: string; reason: 'stated' | 'told'; evidence_at: TimestampText },
  records: readonly ReportedDelete[],
): CompiledQuery[] {
  return noteCandidates(own, { ...facts, state: 'open', detail: null, sweeps: 0 }, records);
}

function noteCandidates(
  own: Kysely<OwnTables>,
  facts: CandidateFacts & { sweeps: number },
  records: readonly ReportedDelete[],
): CompiledQuery[] {
  const { evidence_at } = facts;
  // In the statement, `excluded` is the new evidence, and `_sync_suspects` the candidate that exists.
  const rows = records.map(({ key, at }) => {
    return { ...facts, record_id: key, deleted_at: at, found_at: evidence_at, hash: null };
  });
  const stays = sql`_sync_suspects.state = 'released' OR (_sync_suspects.state = 'held' AND excluded.state = 'open')`;
  // A report of the service is stronger evidence than a scan that did not list the record.
  const existingIsStronger = sql`excluded.reason IN ('missing', 'event') AND _sync_suspects.reason IN ('event', 'stated', 'told')
    OR excluded.reason = 'told' AND _sync_suspects.reason = 'stated'`;
  return upsertCandidates(own, rows, {
    reason: sql`CASE WHEN ${existingIsStronger} THEN _sync_suspects.reason ELSE excluded.reason END`,
    state: sql`CASE WHEN ${stays} THEN _sync_suspects.state ELSE excluded.state END`,
    detail: sql`CASE WHEN ${stays} THEN _sync_suspects.detail ELSE excluded.detail END`,
    sweeps: sql`CASE WHEN _sync_suspects.reason = 'older' THEN 0 ELSE _sync_suspects.sweeps END + excluded.sweeps`,
    evidence_at,
    hash: null,
    deleted_at: sql`coalesce(excluded.deleted_at, _sync_suspects.deleted_at)`,
  });
}

/**
 * Notes older states, found by a scan that began at `at`, each with the number of consecutive full scans that have shown
 * it. Candidates that an operator must decide stay as they are.
 */
export function noteOlderStates(
  own: Kysely<OwnTables>,
  resource: string,
  states: readonly Pick<DeleteCandidateRow, 'record_id' | 'hash' | 'sweeps'>[],
  at: TimestampText,
): CompiledQuery[] {
  const noted = { reason: 'older', state: 'open', evidence_at: at, detail: null } as const;
  const rows = states.map((state) => ({ resource, found_at: at, deleted_at: null, ...noted, ...state }));
  const update = { ...noted, sweeps: sql<number>`excluded.sweeps`, hash: sql<string>`excluded.hash` };
  return upsertCandidates(own, rows, update, ['open', 'settled']);
}

/** Inserts candidates, or updates those that exist, if they are in one of the states. */
function upsertCandidates(
  own: Kysely<OwnTables>,
  rows: readonly DeleteCandidateRow[],
  update: UpdateObject<OwnTables, '_sync_suspects'>,
  states: readonly DeleteCandidateRow['state'][] = ['open', 'held', 'released', 'settled'],
): CompiledQuery[] {
  return inParts(rows).map((part) =>
    own
      .insertInto('_sync_suspects')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['resource', 'record_id']).doUpdateSet(update).where('_sync_suspects.state', 'in', states),
      )
      .compile(),
  );
}

function deleteCandidates(own: Kysely<OwnTables>, resource: string) {
  return own.deleteFrom('_sync_suspects').where('resource', '=', resource);
}

function updateCandidates(own: Kysely<OwnTables>, resource: string, update: Partial<DeleteCandidateRow>) {
  return own.updateTable('_sync_suspects').set(update).where('resource', '=', resource);
}

/** Limits a statement to these records. */
function ofRecords(
  statement: { where(column: 'record_id', operator: 'in', ids: string[]): { compile(): CompiledQuery } },
  ids: readonly string[],
): CompiledQuery[] {
  return inParts(ids).map((part) => statement.where('record_id', 'in', part).compile());
}

/** True for a candidate whose delete may still be carried out, also if an operator has confirmed it. */
function isToBeCarriedOut(is: ExpressionBuilder<OwnTables, '_sync_suspects'>) {
  return is.and([is('reason', '<>', 'older'), is('state', '<>', 'settled')]);
}

/**
 * After a full scan: removes the candidates that it has listed, or that were written or deleted since it began. They are
 * those with older evidence: the scan has renewed `evidence_at` of all records that it did not list.
 */
export function forgetListed(own: Kysely<OwnTables>, resource: string, scanStartedAt: TimestampText): CompiledQuery {
  return deleteCandidates(own, resource).where(isToBeCarriedOut).where('evidence_at', '<', scanStartedAt).compile();
}

/**
 * Which candidates are removed. `all`. `not_settled`: all but those whose delete an operator's decision has carried out.
 * `refuted_by_feed`: those of the latter that a feed refutes by listing the record as live; candidates that a scan or a
 * webhook has found are verified by other requests.
 */
type RemovedCandidates = 'all' | 'not_settled' | 'refuted_by_feed';

export function forgetDeleteCandidates(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  which: RemovedCandidates = 'all',
): CompiledQuery[] {
  let forget = deleteCandidates(own, resource);
  if (which !== 'all') forget = forget.where('state', '<>', 'settled');
  if (which === 'refuted_by_feed') forget = forget.where('reason', 'in', ['stated', 'told', 'older', 'left_out']);
  return ofRecords(forget, ids);
}

/** Notes that records were deleted because an operator confirmed it (state `settled`). */
export function markSettled(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  const settled = { state: 'settled', sweeps: 0, evidence_at: at, detail: null } as const;
  return ofRecords(updateCandidates(own, resource, settled), ids);
}

/** Removes the candidates whose deletes were carried out by an operator's decision before `before`. */
export function forgetSettled(own: Kysely<OwnTables>, resource: string, before: TimestampText): CompiledQuery {
  return deleteCandidates(own, resource).where('state', '=', 'settled').where('evidence_at', '<', before).compile();
}

/** Notes that an operator confirms deletes; `deleteReleased` carries them out. All of the resource if no ids are given. */
export function releaseDeletes(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const release = updateCandidates(own, resource, { state: 'released', detail: null }).where(isToBeCarriedOut);
  return ids.length === 0 ? [release.compile()] : ofRecords(release, ids);
}

/** Dismisses deletes that are not carried out yet: their rows stay live. All of the resource if no ids are given. */
export function dismissDeletes(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const dismissed = deleteCandidates(own, resource).where(isToBeCarriedOut);
  return ids.length === 0 ? [dismissed.compile()] : ofRecords(dismissed, ids);
}

/** Holds all deletes that are still to be verified: an operator must decide them. */
export function holdOpenDeletes(own: Kysely<OwnTables>, resource: string, detail: string): CompiledQuery {
  const hold = updateCandidates(own, resource, { state: 'held', detail });
  return hold.where('reason', '<>', 'older').where('state', '=', 'open').compile();
}

/** Holds these deletes until an operator decides. */
export function holdDeletes(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  detail: string,
): CompiledQuery[] {
  return ofRecords(updateCandidates(own, resource, { state: 'held', detail }), ids);
}

/** Candidates in these states: first settled ones, then released, open and held ones, of each state the oldest first. */
export function readDeleteCandidates(
  own: Kysely<OwnTables>,
  resource: string,
  states: readonly DeleteCandidateRow['state'][],
  limit = Number.MAX_SAFE_INTEGER,
): Promise<DeleteCandidateRow[]> {
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

/** Counts the candidates in a state; with `since`, only those whose evidence is not older. */
export async function countDeleteCandidates(
  own: Kysely<OwnTables>,
  resource: string,
  state: DeleteCandidateRow['state'],
  since: TimestampText | null = null,
): Promise<number> {
  const all = own
    .selectFrom('_sync_suspects')
    .select((select) => select.fn.countAll<number>().as('n'))
    .where('resource', '=', resource)
    .where('state', '=', state);
  return (await (since === null ? all : all.where('evidence_at', '>=', since)).executeTakeFirstOrThrow()).n;
}

/** The resources with released deletes that are still to be carried out. */
export async function releasedResources(own: Kysely<OwnTables>): Promise<string[]> {
  const released = own.selectFrom('_sync_suspects').select('resource').distinct().where('state', '=', 'released');
  return (await released.execute()).map(({ resource }) => resource);
}
