// Delete candidates (`_sync_suspects`): records that may be deleted at the service. Example: a full scan does not list post
// 42 any more, so it becomes `open`. If fetching it alone gives 404, its row is deleted. If too many rows would be deleted
// at once, they are `held`; when an operator confirms they are `released`, and `settled` once they are deleted. The table
// also has records that a listing shows in an older state than the copy. `DeleteCandidateRow` explains all reasons.
import { type CompiledQuery, type ExpressionBuilder, type Kysely, sql, type UpdateObject } from 'kysely';
import type { DeleteCandidateRow, OwnTables, TimestampText } from '../own-tables.ts';
import { inParts } from './in-parts.ts';

/** The columns in which the candidates of one call are equal. */
export type CandidateFacts = Pick<DeleteCandidateRow, 'resource' | 'reason' | 'state' | 'evidence_at' | 'detail'>;

/** Stores live records that may be deleted. The evidence is as good as `sweeps` full scans without them. */
export function noteMissingRecords(
  own: Kysely<OwnTables>,
  facts: CandidateFacts,
  ids: readonly string[],
  sweeps: 0 | 1 | 2,
): CompiledQuery[] {
  const records = ids.map((key) => ({ key, at: null }));
  return noteCandidates(own, { ...facts, sweeps }, records);
}

/** A record that the service reports as deleted. */
export interface ReportedDelete {
  key: string;
  /** The service's time of the delete; null if it names none. */
  at: TimestampText | null;
}

/**
 * Stores records whose delete the service reports: in the record itself (`stated`), or in a feed (`told`). `evidence_at` is
 * the time of the request.
 */
export function noteReportedDeletes(
  own: Kysely<OwnTables>,
  facts: { resource: string; reason: 'stated' | 'told'; evidence_at: TimestampText },
  records: readonly ReportedDelete[],
): CompiledQuery[] {
  return noteCandidates(own, { ...facts, state: 'open', detail: null, sweeps: 0 }, records);
}

/** Inserts candidates, or adds the evidence to those that exist. Released ones and held ones stay so. */
function noteCandidates(
  own: Kysely<OwnTables>,
  facts: CandidateFacts & { sweeps: number },
  records: readonly ReportedDelete[],
): CompiledQuery[] {
  const { evidence_at } = facts;
  const rows = records.map(({ key, at }) => {
    return { ...facts, record_id: key, deleted_at: at, found_at: evidence_at, hash: null };
  });
  // In the statement, `excluded` is the new evidence, and `_sync_suspects` the existing candidate.
  const keepsState = sql`_sync_suspects.state = 'released' OR (_sync_suspects.state = 'held' AND excluded.state = 'open')`;
  // A report of the service is stronger evidence than a scan that did not list the record.
  const existingIsStronger = sql`excluded.reason IN ('missing', 'event') AND _sync_suspects.reason IN ('event', 'stated', 'told')
    OR excluded.reason = 'told' AND _sync_suspects.reason = 'stated'`;
  return upsertCandidates(own, rows, {
    reason: sql`CASE WHEN ${existingIsStronger} THEN _sync_suspects.reason ELSE excluded.reason END`,
    state: sql`CASE WHEN ${keepsState} THEN _sync_suspects.state ELSE excluded.state END`,
    detail: sql`CASE WHEN ${keepsState} THEN _sync_suspects.detail ELSE excluded.detail END`,
    sweeps: sql`CASE WHEN _sync_suspects.reason = 'older' THEN 0 ELSE _sync_suspects.sweeps END + excluded.sweeps`,
    evidence_at,
    hash: null,
    deleted_at: sql`coalesce(excluded.deleted_at, _sync_suspects.deleted_at)`,
  });
}

/**
 * Stores records that a scan lists in an older state than their row. `at` is the start of the scan, `sweeps` the number of
 * consecutive full scans that have listed the same state. Held and released candidates stay as they are.
 */
export function noteOlderStates(
  own: Kysely<OwnTables>,
  resource: string,
  states: readonly Pick<DeleteCandidateRow, 'record_id' | 'hash' | 'sweeps'>[],
  at: TimestampText,
): CompiledQuery[] {
  const facts = { reason: 'older', state: 'open', evidence_at: at, detail: null } as const;
  const rows = states.map((state) => ({ resource, found_at: at, deleted_at: null, ...facts, ...state }));
  const update = { ...facts, sweeps: sql<number>`excluded.sweeps`, hash: sql<string>`excluded.hash` };
  return upsertCandidates(own, rows, update, ['open', 'settled']);
}

/** Inserts candidates, or updates the existing ones if they are in one of the states. */
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

/** Compiles a statement for these records only. */
function forRecords(
  statement: { where(column: 'record_id', operator: 'in', ids: string[]): { compile(): CompiledQuery } },
  ids: readonly string[],
): CompiledQuery[] {
  return inParts(ids).map((part) => statement.where('record_id', 'in', part).compile());
}

/** True for a possible delete that was not carried out yet. */
function isPendingDelete(is: ExpressionBuilder<OwnTables, '_sync_suspects'>) {
  return is.and([is('reason', '<>', 'older'), is('state', '<>', 'settled')]);
}

/**
 * Removes the candidates that a full scan has listed, or that were written or deleted since it began. They have older
 * evidence than the scan, which has renewed `evidence_at` of all records that it did not list.
 */
export function forgetListed(own: Kysely<OwnTables>, resource: string, scanStartedAt: TimestampText): CompiledQuery {
  return deleteCandidates(own, resource).where(isPendingDelete).where('evidence_at', '<', scanStartedAt).compile();
}

/**
 * `not_settled`: all but deletes that were carried out by an operator's decision. `refuted_by_feed`: of these, the candidates
 * that a record in a feed proves wrong; those that a scan or a webhook has found need another request.
 */
type RemovedCandidates = 'all' | 'not_settled' | 'refuted_by_feed';

/** Removes these candidates of a resource. */
export function forgetDeleteCandidates(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  which: RemovedCandidates = 'all',
): CompiledQuery[] {
  let forget = deleteCandidates(own, resource);
  if (which !== 'all') forget = forget.where('state', '<>', 'settled');
  if (which === 'refuted_by_feed') forget = forget.where('reason', 'in', ['stated', 'told', 'older', 'left_out']);
  return forRecords(forget, ids);
}

/** Stores that deletes which an operator has confirmed were carried out. */
export function markSettled(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  const settled = { state: 'settled', sweeps: 0, evidence_at: at, detail: null } as const;
  return forRecords(updateCandidates(own, resource, settled), ids);
}

/** Removes the confirmed deletes that were carried out before a time. */
export function forgetSettled(own: Kysely<OwnTables>, resource: string, before: TimestampText): CompiledQuery {
  return deleteCandidates(own, resource).where('state', '=', 'settled').where('evidence_at', '<', before).compile();
}

/** Stores that an operator confirms deletes, without ids all of the resource; `deleteReleased` carries them out. */
export function releaseDeletes(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const release = updateCandidates(own, resource, { state: 'released', detail: null }).where(isPendingDelete);
  return ids.length === 0 ? [release.compile()] : forRecords(release, ids);
}

/** Removes pending deletes that an operator dismisses, without ids all of the resource: their rows stay live. */
export function dismissDeletes(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const dismiss = deleteCandidates(own, resource).where(isPendingDelete);
  return ids.length === 0 ? [dismiss.compile()] : forRecords(dismiss, ids);
}

/** Holds all deletes that are still to be verified, until an operator decides. */
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
  return forRecords(updateCandidates(own, resource, { state: 'held', detail }), ids);
}

/** Reads the candidates in these states: settled, released, open, then held ones, of each state the oldest first. */
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

/** Counts the candidates in a state; with `since`, only those with evidence from then on. */
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

/** Reads which resources have confirmed deletes that were not carried out yet. */
export async function releasedResources(own: Kysely<OwnTables>): Promise<string[]> {
  const released = own.selectFrom('_sync_suspects').select('resource').distinct().where('state', '=', 'released');
  return (await released.execute()).map(({ resource }) => resource);
}
