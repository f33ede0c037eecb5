// Fetches a record for the webhook events that name it, and decides whether the response is new enough for each of them.
//
// A replica or a cache of the service may still return the record as it was before the event: the event says that it was
// updated at 12:00, and the response has 11:58. Then the record is fetched again, up to six times.
import { type Expectation, type ExpectedRecord, isBefore, type RefetchOutcome } from '../../sync/refetch.ts';
import type { KeyedWork } from './paced-work.ts';
import type { PendingTarget } from './delivery-progress.ts';

/** After this many readings an older record is accepted: a replica has caught up, but the clock of the sender may be ahead. */
const MAX_READINGS = 6;

const AHEAD_REMARK =
  'the event names a later time than the record had at every reading; the record was accepted as the service has it [ahead]';

const CACHED_REMARK =
  'at every reading a cache in front of the service returned a copy from before the event; that copy was accepted [cached]';

/** Fetches a record again and loads it (`sync/refetch.ts`). */
export type Refetch = (resource: string, key: string, expected: Expectation) => Promise<RefetchOutcome>;

export interface RecordReading {
  outcome: RefetchOutcome;
  /** Events that are later than the record that was read: it is read again for them. */
  stale: readonly PendingTarget[];
}

/**
 * Reads a record for the events in `served`. The response is also new enough for events that arrived before the request
 * was sent: those are moved from `work.waiting` to `served`.
 */
export async function readRecord(
  work: KeyedWork,
  served: PendingTarget[],
  refetch: Refetch,
  maxAttempts: number,
): Promise<RecordReading> {
  let stale: readonly PendingTarget[] = [];
  const outcome = await refetch(work.resource, work.key, (requestedAt, updated) => {
    const arrived = work.waiting.splice(0);
    served.push(...arrived.filter(({ addedAt }) => addedAt < requestedAt));
    work.waiting.push(...arrived.filter(({ addedAt }) => addedAt >= requestedAt));
    const comparison = compareWithEvents(served, { requestedAt, updated }, maxAttempts);
    stale = comparison.stale;
    return comparison.expected;
  });
  return { outcome, stale };
}

/**
 * Compares the record with each event separately, so that none delays another one. `expected` says how `refetch` treats
 * the record.
 */
function compareWithEvents(
  served: readonly PendingTarget[],
  { requestedAt, updated }: { requestedAt: number; updated: number | null },
  maxAttempts: number,
): { expected: ExpectedRecord; stale: readonly PendingTarget[] } {
  const isLast = ({ delivery }: PendingTarget): boolean => delivery.attempts >= Math.min(maxAttempts, MAX_READINGS) - 1;
  // A cache stored the response before the delivery arrived. The receiver's clock may be ahead of this machine's.
  const isCached = ({ addedAt, delivery }: PendingTarget): boolean =>
    requestedAt < Math.min(addedAt, delivery.receivedAt);
  const isOlder = ({ target }: PendingTarget): boolean =>
    target.updated !== null && updated !== null && isBefore(updated, target.updated);
  const tooOld = served.filter((one) => isCached(one) || isOlder(one));
  const isAccepted = (one: PendingTarget): boolean =>
    isCached(one) ? one.delivery.attempts >= maxAttempts - 1 : isLast(one);
  for (const one of tooOld.filter(isAccepted)) one.delivery.remark = isCached(one) ? CACHED_REMARK : AHEAD_REMARK;
  const stale = tooOld.filter((one) => !isAccepted(one));
  // A record that is too old for one event is loaded for the others, but it must not replace a newer row.
  const isForOthers = tooOld.length > 0 && stale.length < served.length;
  const times = isForOthers
    ? []
    : served.filter((one) => !isLast(one)).map(({ target }) => target.updated ?? -Infinity);
  const after = Math.max(...times);
  const isDelete = served.some(({ target }) => target.isDelete);
  const expected = { after: Number.isFinite(after) ? after : null, isDelete, isLastTry: served.every(isLast) };
  return { expected, stale };
}
