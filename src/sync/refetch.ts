import { readItem, type ItemReading } from '../pagination/read-item.ts';
import { SyncError } from '../model/errors.ts';
import { updatedTime } from '../rows/columns/updated-time.ts';
import { tombstoneOf } from '../rows/tombstone.ts';
import { softDeleteGone, liveRows, type Gone } from './deletes/soft-delete-gone.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { withResource, type ResourceContext, type SourceContext } from './resource-context.ts';
import { askListing } from './item/ask-listing.ts';
import { checkItemReading, loadRecord, type FoundRecord } from './item/check-reading.ts';

/**
 * The outcome of reading a record again. `rejected`: it exists but cannot become a row, and was set aside. `deleted`,
 * `held`, `absent`: the service has it no more; its row was marked, waits for a person, or never was. `unconfirmed`: it
 * may be gone, and only a whole walk can tell. `behind`: the answer is from before the event, nothing was written.
 * `forgotten`: a person has had the record erased, nothing was asked. `unreadable`: this record cannot be read alone, or what is read is not proved to be the listed record, so its
 * resource has to be walked.
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

/** The record as the events describe it. */
export interface ExpectedRecord {
  /** Its time of change, epoch milliseconds; null if no event says one. */
  after: number | null;
  /** True if an event says that it is gone. */
  isDelete: boolean;
  /** True if this is the last time that it is read for these events. */
  isLastTry?: boolean;
}

/**
 * Returns the record as the events from before a moment (local epoch milliseconds) describe it. `updated` is the time
 * of change of what was read, in epoch milliseconds; null if nothing was, or it says none.
 */
export type Expectation = (requestedAt: number, updated: number | null) => ExpectedRecord;

/** One record to read again. */
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

/** So long after its event a record may still be missing at the replica that answered. */
const ON_ITS_WAY_MS = 5_000;

/**
 * Reads one record again in the first lane and loads it like any other. `expected` is asked once the answer is there,
 * with the time at which it was asked for: events from before that are served by this reading. Throws what reading and
 * loading throw; then nothing was written.
 */
export async function refetch(context: ResourceContext, key: string, expected: Expectation): Promise<RefetchOutcome> {
  const { proof, clock, owned } = context;
  if (owned.forgotten.has(key)) {
    expected(clock.now(), null);
    return 'forgotten';
  }
  const reading = await readAlone(context, key);
  if (reading === null) return cannotBeRead(context, key, expected(clock.now(), null));
  const record = (reading.isThere ? reading.record : (reading.stated?.record ?? reading.leftOut)) ?? null;
  const updated = record === null ? null : (updatedTime(record.value, context.profile)?.at ?? null);
  const event = expected(reading.requestedAt, updated);
  const isEarlier = event.after !== null && updated !== null && isBefore(updated, event.after);
  if (isEarlier && !reading.isThere) return 'behind';
  if (!reading.isThere && reading.leftOut === undefined) {
    const { stated, requestedAt: confirmedAt } = reading;
    return gone(context, { key, confirmedAt, deletedAt: stated?.at ?? null }, event, stated !== undefined);
  }
  proof.at = Math.max(proof.at, reading.requestedAt);
  if (isEarlier) return 'behind';
  if (record === null || (await checkItemReading(context, key, record, 'refetch')) !== null) return 'unreadable';
  if (!reading.isThere) return leftOut(context, { key, confirmedAt: reading.requestedAt });
  // Only if the event has a time of its own is it sure that no lagging replica has answered.
  const acceptsOlder = event.after !== null && updated !== null;
  return loadOne(context, key, reading, acceptsOlder);
}

/** Null if the profile has no path for it, or the key cannot be part of one. */
async function readAlone(context: ResourceContext, key: string): Promise<ItemReading | null> {
  try {
    return await readItem(context, key, 'refetch');
  } catch (error) {
    if (error instanceof SyncError && error.code === 'item_unreadable') return null;
    throw error;
  }
}

async function loadOne(
  context: ResourceContext,
  key: string,
  found: FoundRecord,
  acceptsOlder: boolean,
): Promise<RefetchOutcome> {
  const { inserted, updated, rejected } = await loadRecord(context, key, found, { acceptsOlder });
  if (rejected > 0) return 'rejected';
  return inserted + updated > 0 ? 'loaded' : 'unchanged';
}

const WALKED = { witness: 'walked', reason: 'missing', isReleased: false } as const;

/** The record says itself that it is none of the resource's: nothing else need be asked. */
async function leftOut(context: ResourceContext, record: Gone): Promise<RefetchOutcome> {
  const { deleted, held, doubt } = await softDeleteGone(context, [record], WALKED);
  if (deleted.length > 0) return 'deleted';
  if (doubt !== null) return 'unconfirmed';
  return held.length > 0 ? 'held' : 'absent';
}

async function gone(
  context: ResourceContext,
  record: Gone,
  event: ExpectedRecord,
  isStated: boolean,
): Promise<RefetchOutcome> {
  const witness = isStated ? 'stated' : event.isDelete ? 'told' : 'untold';
  const evidence = { witness, reason: isStated ? 'stated' : 'event', isReleased: false } as const;
  const { deleted, held, waiting, listed, doubt } = await softDeleteGone(context, [record], evidence);
  if (deleted.length > 0) return 'deleted';
  const [shown] = listed;
  // A listing that lags behind shows it for a while.
  if (shown !== undefined && event.isDelete) return event.isLastTry ? 'unconfirmed' : 'behind';
  if (shown !== undefined) return loadOne(context, record.key, shown, false);
  if (waiting.length > 0 || doubt !== null) return 'unconfirmed';
  if (held.length > 0) return 'held';
  if (isStated) return 'absent';
  const isYoung = event.after !== null && record.confirmedAt - event.after < ON_ITS_WAY_MS;
  return isYoung && !event.isDelete ? 'behind' : 'absent';
}

/**
 * A walk shows changes but no deletes: a suspected delete is noted, to be confirmed by the next whole walk, unless a walk
 * has found it meanwhile or the listing shows the record as deleted.
 */
async function cannotBeRead(context: ResourceContext, key: string, event: ExpectedRecord): Promise<RefetchOutcome> {
  const { profile, clock } = context;
  if (!event.isDelete || profile.item !== null) return 'unreadable';
  if (await isDeleted(context, key)) return 'absent';
  const found = profile.deleted === null ? null : await listedTombstone(context, key, event);
  if (found !== null) return gone(context, found, event, true);
  const evidence = { witness: 'told', reason: 'event', isReleased: false } as const;
  await softDeleteGone(context, [{ key, confirmedAt: clock.now() }], evidence);
  return 'unreadable';
}

async function isDeleted({ warehouse, owned }: ResourceContext, key: string): Promise<boolean> {
  const table = owned.shape?.tables[0];
  const row = table === undefined ? undefined : (await warehouse.rows.stored(table, [key], [])).get(key);
  return row !== undefined && row.deletedAt !== null;
}

/** Null if the listing does not show the record of a live row as deleted, or only from before the event. */
async function listedTombstone(context: ResourceContext, key: string, { after }: ExpectedRecord): Promise<Gone | null> {
  const { profile, clock, warehouse, owned } = context;
  const asked = { key, confirmedAt: clock.now() };
  const row = (await liveRows(context, [asked])).get(key);
  if (row === undefined) return null;
  // Deleted before the last walk, it would have been met by that.
  const updated = (await readCheckpoint(warehouse.own, owned.resource))?.cursor ?? row.updated;
  const answer = await askListing(context, { key, updated, after: asked.confirmedAt }, 'refetch');
  if (answer.is !== 'stated') return null;
  const { value } = answer.record;
  const changedAt = updatedTime(value, profile)?.at ?? null;
  if (after !== null && changedAt !== null && isBefore(changedAt, after)) return null;
  return { key, confirmedAt: answer.requestedAt, deletedAt: tombstoneOf(value, profile)?.at ?? null };
}

/** True for a record from before an event. Compared by the second if its own time has nothing finer. */
export function isBefore(updated: number, after: number): boolean {
  return updated < (updated % 1_000 === 0 ? Math.floor(after / 1_000) * 1_000 : after);
}
