// Fetches one record again, usually after a webhook, and writes or deletes its row (`refetch`). A service may answer with an
// older state than its event, because a replica lags behind: nothing is written then, and the caller tries again.
import { SyncError } from '../model/errors.ts';
import { type ItemReading, readItem } from '../pagination/read-item.ts';
import { updatedTime } from '../rows/columns/updated-time.ts';
import { type DeletedRecord, type DeleteEvidence, softDelete } from './deletes/soft-delete.ts';
import { type ResourceContext, type SourceContext, withResource } from './resource-context.ts';
import { checkItemReading, type FoundRecord, loadRecord } from './single-record.ts';

export type RefetchOutcome =
  /** The row was written, or is equal to the record. */
  | 'loaded'
  | 'unchanged'
  /** The record exists, but cannot become a row. */
  | 'rejected'
  /** An operator has had the record erased: nothing was requested. */
  | 'forgotten'
  /** The service no longer has the record: its row was marked as deleted, waits for an operator, or never existed. */
  | 'deleted'
  | 'held'
  | 'absent'
  /** The record may be deleted, which only a full scan can verify. */
  | 'unconfirmed'
  /** The response is older than the event: nothing was written. */
  | 'behind'
  /** The record cannot be fetched individually, or may differ from the listed one: its resource has to be scanned. */
  | 'unreadable';

/** What events say about a record. */
export interface ExpectedRecord {
  /** Its time of change, epoch milliseconds; null if no event has one. */
  after: number | null;
  isDelete: boolean;
  /** True if it is not fetched again for these events. */
  isLastTry?: boolean;
}

/**
 * Returns what the events say that arrived before a request (local epoch milliseconds). `updated` is the time of change of
 * the fetched record, in epoch milliseconds; null if it has none or there is no record.
 */
export type Expectation = (requestedAt: number, updated: number | null) => ExpectedRecord;

export interface RefetchRequest {
  resource: string;
  key: string;
  expected: Expectation;
  signal: AbortSignal;
}

/** Acquires the resource for a `refetch`. Throws `lease_held` if another process owns it. */
export function refetchOwned(
  source: SourceContext,
  { resource, key, expected, signal }: RefetchRequest,
): Promise<RefetchOutcome> {
  return withResource(source, resource, signal, (context) => refetch(context, key, expected));
}

/** For this long after its event, a record may be missing at a replica that lags behind. */
const REPLICA_DELAY_MS = 5_000;

/**
 * Fetches one record again with the highest priority and loads it like any other. `expected` is called once, after the
 * response, and tells the caller which events this request covers. Throws what fetching and loading throw; then nothing was
 * written.
 */
export async function refetch(context: ResourceContext, key: string, expected: Expectation): Promise<RefetchOutcome> {
  const { proof, clock, owned, profile } = context;
  if (owned.forgotten.has(key)) {
    expected(clock.now(), null);
    return 'forgotten';
  }
  const reading = await readItemIfPossible(context, key);
  if (reading === null) return refetchByScan(context, key, expected(clock.now(), null));
  const { requestedAt, isThere } = reading;
  const record = (isThere ? reading.record : (reading.tombstone?.record ?? reading.excluded)) ?? null;
  const updated = record === null ? null : (updatedTime(record.value, profile)?.at ?? null);
  const event = expected(requestedAt, updated);
  const isBeforeEvent = event.after !== null && updated !== null && isBefore(updated, event.after);
  if (isBeforeEvent && !isThere) return 'behind';
  if (!isThere && reading.excluded === undefined) {
    const gone = { key, confirmedAt: requestedAt, deletedAt: reading.tombstone?.at ?? null };
    return deleteRecord(context, gone, event, reading.tombstone !== undefined);
  }
  proof.at = Math.max(proof.at, requestedAt);
  if (isBeforeEvent) return 'behind';
  if (record === null || (await checkItemReading(context, key, record, 'refetch')) !== null) return 'unreadable';
  if (!isThere) return deleteExcluded(context, { key, confirmedAt: requestedAt });
  // With both times, the response is not older than the event: it is loaded even if the row has a later time of change.
  return loadFound(context, key, reading, event.after !== null && updated !== null);
}

/** Fetches a record by its own path; null if the profile has no such path, or the key cannot be part of one. */
async function readItemIfPossible(context: ResourceContext, key: string): Promise<ItemReading | null> {
  try {
    return await readItem(context, key, 'refetch');
  } catch (error) {
    if (error instanceof SyncError && error.code === 'item_missing' && error.recovery === 'skip') return null;
    throw error;
  }
}

async function loadFound(
  context: ResourceContext,
  key: string,
  found: FoundRecord,
  acceptsOlder: boolean,
): Promise<RefetchOutcome> {
  const { inserted, updated, rejected } = await loadRecord(context, key, found, { acceptsOlder });
  if (rejected > 0) return 'rejected';
  return inserted + updated > 0 ? 'loaded' : 'unchanged';
}

/** Deletes the row of a record that the profile's filter excludes by now. */
async function deleteExcluded(context: ResourceContext, record: DeletedRecord): Promise<RefetchOutcome> {
  const evidence = { kind: 'scan_and_404', reason: 'missing' } as const;
  const { deleted, held, pathProblem } = await softDelete(context, [record], evidence);
  if (deleted.length > 0) return 'deleted';
  if (pathProblem !== null) return 'unconfirmed';
  return held.length > 0 ? 'held' : 'absent';
}

/** Deletes the row, or stores it as a delete candidate. `isTombstone`: the record itself says that it is deleted. */
async function deleteRecord(
  context: ResourceContext,
  record: DeletedRecord,
  event: ExpectedRecord,
  isTombstone: boolean,
): Promise<RefetchOutcome> {
  const evidence: DeleteEvidence = isTombstone
    ? { kind: 'tombstone', reason: 'stated' }
    : { kind: event.isDelete ? 'reported' : 'only_404', reason: 'event' };
  const { deleted, held, waiting, listed, pathProblem } = await softDelete(context, [record], evidence);
  if (deleted.length > 0) return 'deleted';
  const [listedRecord] = listed;
  // After a delete, a listing that lags behind shows the record for a while.
  if (listedRecord !== undefined && event.isDelete) return event.isLastTry ? 'unconfirmed' : 'behind';
  if (listedRecord !== undefined) return loadFound(context, record.key, listedRecord, false);
  if (waiting.length > 0 || pathProblem !== null) return 'unconfirmed';
  if (held.length > 0) return 'held';
  if (isTombstone) return 'absent';
  const isRecentEvent = event.after !== null && record.confirmedAt - event.after < REPLICA_DELAY_MS;
  return isRecentEvent && !event.isDelete ? 'behind' : 'absent';
}

/**
 * Leaves a record that cannot be fetched individually to the next scan. A delete is stored as a candidate, because only a
 * full scan, or a tombstone in the listing, verifies it.
 */
async function refetchByScan(context: ResourceContext, key: string, event: ExpectedRecord): Promise<RefetchOutcome> {
  const { profile, clock } = context;
  if (!event.isDelete || profile.item !== null) return 'unreadable';
  const record = { key, confirmedAt: clock.now() };
  const { held } = await softDelete(context, [record], { kind: 'reported', reason: 'event' });
  return held.length > 0 ? 'unreadable' : 'absent';
}

/** True for a record from before an event. Compares seconds if the time of the record has no milliseconds. */
export function isBefore(updated: number, after: number): boolean {
  return updated < (updated % 1_000 === 0 ? Math.floor(after / 1_000) * 1_000 : after);
}
