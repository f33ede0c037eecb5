// Fetches one record again, usually after a webhook, and writes or deletes its row.
import { SyncError } from '../model/errors.ts';
import { type ItemReading, readItem } from '../pagination/read-item.ts';
import { updatedTime } from '../rows/columns/updated-time.ts';
import { type DeletedRecord, type DeleteEvidence, softDelete } from './deletes/soft-delete.ts';
import { type ResourceContext, type SourceContext, withResource } from './resource-context.ts';
import { checkItemReading, type FoundRecord, loadRecord } from './single-record.ts';

/**
 * The outcome of fetching a record again. `rejected`: it exists but cannot become a row. `deleted`, `held`, `absent`: the
 * service no longer has it; its row was marked, waits for an operator, or never existed. `unconfirmed`: it may be deleted,
 * and only a full scan can tell. `behind`: the response is from before the event, nothing was written. `forgotten`: an
 * operator has had the record erased, nothing was requested. `unreadable`: it cannot be fetched individually, or may
 * differ from the listed record, so its resource has to be scanned.
 */
export type RefetchOutcome =
  | 'loaded'
  | 'unchanged'
  | 'rejected'
  | 'forgotten'
  | 'deleted'
  | 'held'
  | 'absent'
  | 'unconfirmed'
  | 'behind'
  | 'unreadable';

export interface ExpectedRecord {
  /** Its time of change, epoch milliseconds; null if no event states one. */
  after: number | null;
  isDelete: boolean;
  /** True if it is not fetched again for these events. */
  isLastTry?: boolean;
}

/**
 * Returns the record as the events from before a time (local epoch milliseconds) describe it. `updated` is the time of
 * change of the fetched record, in epoch milliseconds; null if it has none or there is no record.
 */
export type Expectation = (requestedAt: number, updated: number | null) => ExpectedRecord;

export interface RefetchRequest {
  resource: string;
  key: string;
  expected: Expectation;
  signal: AbortSignal;
}

/** `refetch` as the owner of the resource. Throws `lease_held` if another process owns it. */
export function refetchOwned(
  source: SourceContext,
  { resource, key, expected, signal }: RefetchRequest,
): Promise<RefetchOutcome> {
  return withResource(source, resource, signal, (context) => refetch(context, key, expected));
}

/** For this long after its event a record may be missing at the replica that responded. */
const REPLICA_DELAY_MS = 5_000;

/**
 * Fetches one record again with the highest priority and loads it like any other. `expected` is called with the time of
 * the request once the response has arrived: it serves the events from before. Throws what fetching and loading throw;
 * then nothing was written.
 */
export async function refetch(context: ResourceContext, key: string, expected: Expectation): Promise<RefetchOutcome> {
  const { proof, clock, owned, profile } = context;
  if (owned.forgotten.has(key)) {
    expected(clock.now(), null);
    return 'forgotten';
  }
  const reading = await fetchAlone(context, key);
  if (reading === null) return withoutFetch(context, key, expected(clock.now(), null));
  const { requestedAt, isThere } = reading;
  const record = (isThere ? reading.record : (reading.tombstone?.record ?? reading.excluded)) ?? null;
  const updated = record === null ? null : (updatedTime(record.value, profile)?.at ?? null);
  const event = expected(requestedAt, updated);
  const isEarlier = event.after !== null && updated !== null && isBefore(updated, event.after);
  if (isEarlier && !isThere) return 'behind';
  if (!isThere && reading.excluded === undefined) {
    const gone = { key, confirmedAt: requestedAt, deletedAt: reading.tombstone?.at ?? null };
    return deleteRecord(context, gone, event, reading.tombstone !== undefined);
  }
  proof.at = Math.max(proof.at, requestedAt);
  if (isEarlier) return 'behind';
  if (record === null || (await checkItemReading(context, key, record, 'refetch')) !== null) return 'unreadable';
  if (!isThere) return deleteExcluded(context, { key, confirmedAt: requestedAt });
  // Only an event with a time of its own excludes that a replica that lags behind has responded.
  return loadFound(context, key, reading, event.after !== null && updated !== null);
}

/** Null if the profile has no path for the record, or the key cannot be part of one. */
async function fetchAlone(context: ResourceContext, key: string): Promise<ItemReading | null> {
  try {
    return await readItem(context, key, 'refetch');
  } catch (error) {
    if (error instanceof SyncError && error.code === 'item_unreadable') return null;
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

/** Deletes the row of a record that shows by itself that the profile's filter excludes it. */
async function deleteExcluded(context: ResourceContext, record: DeletedRecord): Promise<RefetchOutcome> {
  const evidence = { kind: 'scan_and_404', reason: 'missing' } as const;
  const { deleted, held, pathProblem } = await softDelete(context, [record], evidence);
  if (deleted.length > 0) return 'deleted';
  if (pathProblem !== null) return 'unconfirmed';
  return held.length > 0 ? 'held' : 'absent';
}

/**
 * Deletes the row, or stores it as a candidate (`DeleteCandidateRow`). `isStated`: the record itself says that it is
 * deleted.
 */
async function deleteRecord(
  context: ResourceContext,
  record: DeletedRecord,
  event: ExpectedRecord,
  isStated: boolean,
): Promise<RefetchOutcome> {
  const evidence: DeleteEvidence = isStated
    ? { kind: 'tombstone', reason: 'stated' }
    : { kind: event.isDelete ? 'reported' : 'only_404', reason: 'event' };
  const { deleted, held, waiting, listed, pathProblem } = await softDelete(context, [record], evidence);
  if (deleted.length > 0) return 'deleted';
  const [shown] = listed;
  // A listing that lags behind shows it for a while.
  if (shown !== undefined && event.isDelete) return event.isLastTry ? 'unconfirmed' : 'behind';
  if (shown !== undefined) return loadFound(context, record.key, shown, false);
  if (waiting.length > 0 || pathProblem !== null) return 'unconfirmed';
  if (held.length > 0) return 'held';
  if (isStated) return 'absent';
  const isYoung = event.after !== null && record.confirmedAt - event.after < REPLICA_DELAY_MS;
  return isYoung && !event.isDelete ? 'behind' : 'absent';
}

/**
 * For a record that cannot be fetched individually: a scan shows its changes. A delete is noted as a candidate, because
 * only a full scan, or a tombstone in the listing, shows that the record is gone.
 */
async function withoutFetch(context: ResourceContext, key: string, event: ExpectedRecord): Promise<RefetchOutcome> {
  const { profile, clock } = context;
  if (!event.isDelete || profile.item !== null) return 'unreadable';
  const record = { key, confirmedAt: clock.now() };
  const { held } = await softDelete(context, [record], { kind: 'reported', reason: 'event' });
  return held.length > 0 ? 'unreadable' : 'absent';
}

/** True for a record from before an event. Compared by the second if its own time has nothing finer. */
export function isBefore(updated: number, after: number): boolean {
  return updated < (updated % 1_000 === 0 ? Math.floor(after / 1_000) * 1_000 : after);
}
